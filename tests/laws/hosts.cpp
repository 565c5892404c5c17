#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <string>
#include <thread>

#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gpipe/mpi.hpp>

#include <gpipe/job.hpp>
#include <gpipe/train/trainer_checkpoints.hpp>

#include "support/among_hosts.hpp"
#include "support/nets.hpp"
#include "support/temporary_folder.hpp"

// A job over hosts that have nothing in common but a network and a file system: it goes on with other hosts than it
// began with, wrong wall clocks change nothing, and what one host lacks is one clear error that names it.
//
// The test makes hosts by support/hosts, and starts jobs of this program in them.

using namespace laws;
using namespace std::chrono_literals;

namespace {

using net = tied_net<float>;

bool is(const char* what) { return task().find(what) != std::string::npos; }

const samples<float> data(20, 12, 1);

trainer<net, adam> training_of(int stages, int replicas, gpipe::process_group* job) {
  training_options how;
  how.seed = 5;
  how.max_grad_norm = 1;
  how.deadline = 20s;
  how.job = job;
  return trainer<net, adam>({.stages = stages, .micro_batches = 2, .micro_batch_size = 5, .replicas = replicas}, adam{},
                            how);
}
void steps(trainer<net, adam>& training, int count) {
  for (int i = 0; i < count; ++i) training.step(data.take(static_cast<int>(training.steps()) % 5, 9));
}

/// The shortest of some.
void print_round_trip(int rank) {
  double shortest = 1e9;
  for (int i = 0; i < 5; ++i) {
    const double begin = MPI_Wtime();
    for (const bool sends : {rank == 0, rank != 0})
      if (sends) MPI_Send(nullptr, 0, MPI_BYTE, 1 - rank, 0, MPI_COMM_WORLD);
      else MPI_Recv(nullptr, 0, MPI_BYTE, 1 - rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    shortest = std::min(shortest, MPI_Wtime() - begin);
  }
  if (rank == 0) std::cout << "round trip " << shortest << " s" << std::endl;
}

/// Whether a process has this word among those of its command.
bool runs(const std::string& word) {
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    std::ifstream words(entry.path() / "cmdline");
    for (std::string one; std::getline(words, one, '\0');)
      if (one == word) return true;
  }
  return false;
}

/// Runs a line of bash among hosts; returns what it prints. `code`: of the line.

}  // namespace

extern "C" int clock_gettime(clockid_t which, timespec* now) noexcept {
  const auto result = static_cast<int>(syscall(SYS_clock_gettime, which, now));
  if (which == CLOCK_REALTIME && is("clock") && host_name() == "b") now->tv_sec += 3600;
  return result;
}

TEST_CASE("a process of a job" * doctest::skip(task().empty())) {
  const std::string folder = std::getenv("GPIPE_TEST_FOLDER");
  std::unique_ptr<gpipe::mpi::job> job;
  try {
    if (is("other build") && host_name() == "b") {
      gpipe::mpi::arrival mine{}, other{};
      mine.host.set("b"), mine.build.set("gpipe 9.9.9");
      int level = 0, tag = 0;
      MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &level);
      tag = gpipe::mpi::arrival_tag();
      for (int i = 0; i < 2; ++i)
        MPI_Sendrecv(&mine, sizeof mine, MPI_BYTE, 0, tag, &other, sizeof other, MPI_BYTE, 0, tag, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
      std::this_thread::sleep_for(10s);  // mpirun ends it
    }
    job = std::make_unique<gpipe::mpi::job>(true, 20s);
    if (is("distant")) print_round_trip(job->rank());
    if (is("limit") && host_name() == "b") {
      std::signal(SIGXFSZ, SIG_IGN);
      const rlimit small{100, 100};
      setrlimit(RLIMIT_FSIZE, &small);
    }
    const int replicas = is("replicas") ? 2 : 1;
    auto training = training_of(job->ranks() / replicas, replicas, job.get());
    if (is("load")) training.load(folder);
    steps(training, 2);
    training.save(folder);
    if (job->rank() == 0) std::cout << "saved " << training.steps() << std::endl;
    const std::uint64_t hash = training.parameter_hash();
    if (job->rank() == 0) std::cout << "parameters " << hash << std::endl;
  } catch (const gpipe::error& failure) {
    if (job == nullptr || job->leave(failure)) std::cerr << "CAUSE " << failure.what() << std::endl;
    job.reset();
    std::_Exit(EXIT_FAILURE);
  }
}

TEST_CASE("a training goes on with more hosts and with fewer, as replicas and as stages, with the same bits" *
          doctest::skip(!task().empty())) {
  if (!has_hosts()) return;
  for (const int replicas : {1, 2}) {
    CAPTURE(replicas);
    const temporary_folder folder;
    auto twin = training_of(1, replicas, nullptr);
    steps(twin, 6);
    const std::string how = replicas == 2 ? "replicas clock" : "stages clock";
    int code = 0;
    const std::string text =
        among_hosts(4,
                    start("a,b", how, folder.path()) + " && " + start("a,b,c,d", how + " load", folder.path()) +
                        " && " + start("c,d", how + " load", folder.path()),
                    code);
    CAPTURE(text);
    CHECK(code == 0);
    CHECK(text.find("saved 6\nparameters " + std::to_string(twin.parameter_hash())) != text.npos);
  }
}

TEST_CASE("over a cable with a delay and losses a training has the same bits, and nothing of it is left" *
          doctest::skip(!task().empty())) {
  if (!has_hosts()) return;
  const temporary_folder folder;
  auto twin = training_of(1, 1, nullptr);
  steps(twin, 2);
  const std::string cable = "5.000" + std::to_string(getpid()) + "ms";  // no other test has this delay
  const std::string wire = "hosts wire b " + cable + " 100mbit", count = "pgrep -fc [t]o_b.b." + cable + "; ",
                    reach = "timeout 1 bash -c \": </dev/tcp/b/22\" 2>&1 | grep -q refused && echo in || echo out; ";
  int code = 0;
  const std::string text = among_hosts(2,
                                       wire + " || exit; hosts cut b; " + reach + "hosts join b; sleep 0.1; " + reach +
                                           wire + " 0.01; " + count + start("a,b", "stages distant", folder.path()),
                                       code);
  if (code == skipped) {
    MESSAGE(text);
    return;
  }
  CAPTURE(text);
  CHECK(code == 0);
  CHECK(text.rfind("out\nin\n1\n", 0) == 0);
  const auto seconds = text.find("round trip ");
  REQUIRE(seconds != text.npos);
  CHECK(std::stod(text.substr(seconds + 11)) >= 0.01);
  CHECK(text.find("parameters " + std::to_string(twin.parameter_hash())) != text.npos);
  CHECK(!runs(cable));
}

TEST_CASE("what one host lacks is one error that names the host, and nothing is lost" *
          doctest::skip(!task().empty())) {
  if (!has_hosts()) return;
  struct expectation {
    std::string what, folder, error, left;
  };
  const temporary_folder folder;
  const std::string small = "/run/small/run", own = "/tmp/own/run";
  for (const expectation& expected : {
           expectation{"unseen folder", own, own + "/step-00000002.part, rank 1, host b: rank 0 has made this", ""},
           expectation{"limit", folder.path(),
                       "00002.safetensors, rank 1, host b: writing the file failed: File too large", ""},
           expectation{"full disk, load", small, ": writing the file failed: No space left",  // by either host
                       " step-00000002\n"},
           expectation{"other build", folder.path(), "rank 1, host b: ranks 0 and 1 run different builds: gpipe ", ""},
       }) {
    CAPTURE(expected.what);
    std::string line = start("a,b", expected.what, expected.folder) + "; code=$?; echo left: $(ls " + expected.folder +
                       "); exit $code";
    if (expected.folder == small)
      line = start("a,b", "first", small) + "; head -c 2m /dev/zero >/run/small/all; " + line;
    int code = 0;
    const std::string text = among_hosts(2, line, code);
    CAPTURE(text);
    CHECK(code != 0);
    CHECK(text.find(expected.error) != text.npos);
    CHECK(text.find("CAUSE", text.find("CAUSE") + 1) == text.npos);
    CHECK(text.find("left:" + expected.left, text.find("CAUSE")) != text.npos);
    CHECK(text.find(".part", text.find("left:")) == text.npos);
  }
}
