#include <gpipe/mpi/hosts/limits.hpp>

#include <doctest/doctest.h>

#include <cstdlib>
#include <string>

#include <sys/wait.h>

#include "support/sanitized.hpp"

using namespace gpipe::detail;

namespace {

/// The error in a process of its own, whose limit of `what` is `limit`; empty: none.
std::string refused_with(int what, rlim_t limit) {
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  const pid_t child = fork();
  if (child == 0) {
    const rlimit small{limit, limit};
    setrlimit(static_cast<decltype(RLIMIT_AS)>(what), &small);
    std::string found;
    try {
      require_limits_of_mpi(3);
    } catch (const gpipe::error& failure) {
      found = failure.what();
    }
    _exit(::write(ends[1], found.data(), found.size()) == static_cast<ssize_t>(found.size()) ? 0 : 1);
  }
  close(ends[1]);
  std::string text;
  for (char c = 0; ::read(ends[0], &c, 1) == 1;) text += c;
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  CHECK(status == 0);
  return text;
}
std::string host_name() {
  char name[256] = "";
  gethostname(name, sizeof name - 1);
  return name;
}

}  // namespace

TEST_CASE("a limit that is too small for MPI is an error with rank, host, what is left and the limit") {
  const std::string here = "rank 3, host " + host_name() + ": ";
  CHECK(refused_with(RLIMIT_NOFILE, 1000) == "");
#if !defined(TESTS_SANITIZED)  // a sanitizer needs files of its own, and more addresses than any limit
  CHECK(refused_with(RLIMIT_NOFILE, 3) == here +
                                              "the process may open 0 more files, and MPI needs 24; raise the "
                                              "limit of open files (ulimit -n) on this host");
  CHECK(refused_with(RLIMIT_AS, rlim_t{4} << 30) == "");
  const std::string small = refused_with(RLIMIT_AS, rlim_t{32} << 20);
  CAPTURE(small);
  CHECK(small.starts_with(here + "the process may map "));
  CHECK(small.find(" more bytes, and MPI needs 268435456; raise the limit of addresses (ulimit -v)") != small.npos);
#endif
}

TEST_CASE("files and threads are counted as far as they are needed") {
  CHECK(files_left(4) == 4);
  CHECK(threads_started(4) == 4);
}
