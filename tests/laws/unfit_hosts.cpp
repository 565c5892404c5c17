// sanitizers: none
#include <doctest/doctest.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <string>
#include <thread>

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gpipe/job.hpp>
#include <gpipe/mpi.hpp>
#include <gpipe/train/trainer_checkpoints.hpp>

#include "support/among_hosts.hpp"
#include "support/nets.hpp"
#include "support/temporary_folder.hpp"

// A job of which one host cannot be reached, has smaller limits, is given another address, or finds an error while
// rank 0 is busy, ends with one error that names rank and host.
//
// The test makes hosts by support/hosts, and starts jobs of this program in them.

using namespace laws;
using namespace std::chrono_literals;

namespace {

constexpr auto deadline = 3s;

/// Whether this is the host b, and this its task.
bool here(const char* what) { return host_name() == "b" && task() == what; }

void limit(decltype(RLIMIT_AS) what, rlim_t to) {
  const rlimit small{to, to};
  REQUIRE(setrlimit(what, &small) == 0);
}
/// For an unprivileged user, because root has no limit.
void limit_threads(rlim_t to) {
  limit(RLIMIT_NPROC, to);
  if (setuid(65534) != 0) MESSAGE("the user stays");
}
void limit_addresses(rlim_t left) {
  rlim_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  limit(RLIMIT_AS, pages * static_cast<rlim_t>(sysconf(_SC_PAGESIZE)) + left);
}

void train(gpipe::mpi::job& job, const std::string& folder) {
  const bool large = task() == "addresses";
  training_options how;
  how.deadline = deadline;
  how.job = &job;
  if (here("addresses")) limit_addresses(2 << 20);
  if (here("threads")) limit_threads(1);
  trainer<tied_net<float>, adam> training({.stages = 2, .micro_batches = 2, .micro_batch_size = large ? 100'000 : 5},
                                          adam{}, how);
  const samples<float> data(20, 12, 1);
  const auto step = [&] { training.step(data.take(static_cast<int>(training.steps()) % 5, 9)); };
  step();
  if (job.rank() == 0) std::ofstream(folder + ".begun") << "begun";
  while (task() == "goes on") step();
  if (here("error")) throw gpipe::error("an error of this process", "see it");
  if (task() == "error") std::this_thread::sleep_for(20s);  // as in a long kernel
  if (here("files")) limit(RLIMIT_NOFILE, 8);
  training.save(folder);
}
int count(const std::string& text, const std::string& part) {
  int found = 0;
  for (auto at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++found;
  return found;
}

}  // namespace

TEST_CASE("a process of a job" * doctest::skip(task().empty())) {
  std::unique_ptr<gpipe::mpi::job> job;
  try {
    if (here("files of MPI")) limit(RLIMIT_NOFILE, 16);
    if (here("addresses of MPI")) limit_addresses(100 << 20);
    if (here("threads of MPI")) limit_threads(2);
    job = std::make_unique<gpipe::mpi::job>(true, deadline);
    train(*job, std::getenv("GPIPE_TEST_FOLDER"));
  } catch (const gpipe::error& failure) {
    if (job == nullptr || job->leave(failure)) std::cerr << failure.what() << std::endl;
    job.reset();
    std::_Exit(EXIT_FAILURE);
  }
}

TEST_CASE(
    "a smaller limit of one host is one error that names rank, host and limit, and so is an error while rank 0 "
    "is busy" *
    doctest::skip(!task().empty())) {
  if (!has_hosts()) return;
  struct expectation {
    std::string what, error;
  };
  for (const expectation& expected : {
           expectation{"files of MPI", "rank 1, host b: the process may open 13 more files, and MPI needs "},
           expectation{"addresses of MPI", "rank 1, host b: the process may map 10"},
           expectation{"threads of MPI", "rank 1, host b: the process may start "},
           expectation{"files",
                       "00002.safetensors, rank 1, host b: opening the file failed: Too many open files; "
                       "raise the limit of open files (ulimit -n)"},
           expectation{"addresses", "rank 1, host b, stage 1: the memory of 1 stage is "},
           expectation{"threads", "rank 1, host b: the system starts no thread for "},
           expectation{"error", "rank 1, host b: an error of this process; see it"},
       }) {
    CAPTURE(expected.what);
    const temporary_folder folder;
    int code = 0;
    const auto begin = std::chrono::steady_clock::now();
    const std::string text = among_hosts(2, start("a,b", expected.what, folder.path()), code);
    CAPTURE(text);
    CHECK(code != 0);
    CHECK(count(text, expected.error) == 1);
    CHECK(count(text, "host b") == 1);
    CHECK(std::chrono::steady_clock::now() - begin < 15s);  // the longest takes a third of it
  }
}

TEST_CASE("a host that cannot be reached at the beginning ends mpirun and relaunch with a line that names it" *
          doctest::skip(!task().empty())) {
  if (!has_hosts()) return;
  const temporary_folder folder;
  for (const std::string host : {"b", "nosuch"}) {
    CAPTURE(host);
    const std::string cut = host == "b" ? "hosts cut b; " : "";
    for (const bool relaunches : {false, true}) {
      int code = 0;
      const auto begin = std::chrono::steady_clock::now();
      const std::string text =
          among_hosts(2,
                      cut + (relaunches ? "bash " GPIPE_TESTS_FOLDER "/../examples/relaunch --host a:1," + host +
                                              ":1 " + folder.path() + " true"
                                        : start("a," + host, "begin", folder.path())),
                      code);
      CAPTURE(text);
      CHECK(code != 0);
      CHECK(code != 124);  // timeout's
      CHECK(count(text, "agent: host " + host + " cannot be reached") == 1);
      CHECK(count(text, "relaunch: host " + host + " does not answer, and no process has begun") ==
            (relaunches ? 1 : 0));
      CHECK(count(text, "relaunch: ") == (relaunches ? 1 : 0));
      CHECK(std::chrono::steady_clock::now() - begin < 20s);  // a third of it is the longest
    }
  }
}

TEST_CASE("a host whose address changes is lost, and one that gets it back soon is not" *
          doctest::skip(!task().empty())) {
  if (!has_hosts()) return;
  const std::string own = "hosts on b ip address del 10.77.0.12/16 dev eth0; ",
                    other = "hosts on b ip address add 10.77.0.99/16 dev eth0; ",
                    back =
                        "hosts on b ip address del 10.77.0.99/16 dev eth0; "
                        "hosts on b ip address add 10.77.0.12/16 dev eth0; ";
  for (const bool comes_back : {false, true}) {
    CAPTURE(comes_back);
    const temporary_folder folder;
    int code = 0;
    const std::string text = among_hosts(
        2,
        start("a,b", "goes on", folder.path()) + " & until [[ -e " + folder.path() +
            ".begun ]]; do sleep 0.05; done; " + own + other + (comes_back ? "sleep 1; " + back : "") +
            "begin=$(date +%s%N); for ((i = 0; i < 70; ++i)); do hosts on a pgrep -f \"test-case=a process\" "
            ">/dev/null || break; sleep 0.1; done; echo took $((($(date +%s%N) - begin) / 1000000)) ms; "
            "kill -KILL $!; wait 2>/dev/null",
        code);
    CAPTURE(text);
    const auto took = text.find("took ");
    REQUIRE(took != text.npos);
    const int ms = std::stoi(text.substr(took + 5));
    if (comes_back) CHECK(ms >= 7000);
    else CHECK(ms < 1000 * static_cast<int>(deadline.count()) + 2000);
    CHECK(count(text, "rank 1, host b: the process, which is on another host, shows no sign of life") ==
          (comes_back ? 0 : 1));
  }
}
