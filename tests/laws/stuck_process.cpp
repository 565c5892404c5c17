// sanitizers: none
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <string>
#include <thread>

#include <sys/wait.h>
#include <unistd.h>

#include <gpipe/job.hpp>
#include <gpipe/mpi.hpp>
#include <gpipe/train/data/dataset.hpp>
#include <gpipe/train/fit.hpp>

#include "support/nets.hpp"

// A kernel of any worker of any process does not return. Both processes end within the deadline and some seconds, and
// the output names the stage. The test starts jobs of two processes from this program.

using namespace laws;
using namespace std::chrono_literals;

namespace {

/// The stage that does not return, in a process of a job; else null.
const char* stuck_stage() { return std::getenv("GPIPE_TEST_STUCK"); }

std::atomic<int> stuck{-1};

/// Its forward does not return if its stage is stuck.
template <int Stage>
struct gate {
  template <class In>
  struct on : linear<12>::on<In> {
    static void forward(const auto& context, const auto& a) {
      while (stuck == Stage) std::this_thread::sleep_for(10ms);
      linear<12>::on<In>::forward(context, a);
    }
  };
};
struct gates : model<input<float, 12>, gate<0>, gate<1>, gate<2>, gate<3>, softmax_cross_entropy> {};

struct ended_job {
  std::string output;
  int code = 0;
  std::chrono::duration<double> time{};
};

ended_job run_with_stuck(int stage) {
  const std::string command = "GPIPE_TEST_STUCK=" + std::to_string(stage) +
                              " timeout -k 1 40 " GPIPE_TEST_MPIEXEC " -np 2 /proc/" + std::to_string(getpid()) +
                              "/exe --test-case='a process of two workers' 2>&1 >/dev/null";
  const auto begin = std::chrono::steady_clock::now();
  ended_job result;
  FILE* const out = popen(command.c_str(), "r");
  REQUIRE(out != nullptr);
  for (int c = 0; (c = std::fgetc(out)) != EOF;) result.output += static_cast<char>(c);
  const int status = pclose(out);
  result.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  result.time = std::chrono::steady_clock::now() - begin;
  return result;
}

}  // namespace

TEST_CASE("a process of two workers" * doctest::skip(stuck_stage() == nullptr)) {
  std::unique_ptr<gpipe::mpi::job> job;
  try {
    job = std::make_unique<gpipe::mpi::job>();
    trainer<gates, adam> training(plan_options{.stages = 4, .micro_batches = 4, .micro_batch_size = 4, .workers = 4},
                                  {}, {.cut = {1, 2, 3}, .deadline = 1s, .job = job.get()});
    const samples<float> data(16, 12, 1);
    training.step(data.take(0, 16));
    stuck = std::atoi(stuck_stage());
    training.step(data.take(0, 16));
  } catch (const gpipe::error& failure) {
    if (job == nullptr || job->leave(failure)) std::cerr << failure.what() << std::endl;
    std::_Exit(EXIT_FAILURE);
  }
}

TEST_CASE("a kernel that does not return in any of a process's workers ends the job, which says where" *
          doctest::skip(stuck_stage() != nullptr)) {
  for (int stage = 0; stage < 4; ++stage) {
    const ended_job ended = run_with_stuck(stage);
    CAPTURE(stage);
    CAPTURE(ended.output);
    const std::string rank = std::to_string(stage / 2), at = std::to_string(stage);
    CHECK(ended.output.find("gate<" + at + ">, rank " + rank + ", stage " + at + ", micro-batch ") !=
          std::string::npos);
    CHECK(ended.output.find("forward: a kernel of the process ") != std::string::npos);
    CHECK(ended.code != 0);
    CHECK(ended.code != 124);
    CHECK(ended.time < 15s);
  }
}
