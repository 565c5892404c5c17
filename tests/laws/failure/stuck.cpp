#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <exception>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

#include <gpipe.hpp>

// A kernel that does not return. The call throws, the trainer says why in every call, and its destructor returns. If
// the kernel runs on the calling thread, the process ends.

using namespace gpipe;
using namespace std::chrono_literals;

namespace {

std::atomic<bool> blocked{false}, entered{false};

/// Its forward returns when nothing is blocked.
struct gate {
  template <class In>
  struct on : linear<8>::on<In> {
    static void forward(const auto& context, const auto& a) {
      entered = true;
      while (blocked) std::this_thread::sleep_for(1ms);
      linear<8>::on<In>::forward(context, a);
    }
  };
};
/// Its refresh, after an update, returns when nothing is blocked.
struct late_refresh {
  template <class In>
  struct on : linear<8>::on<In> {
    static void refresh(const auto& context, const auto& a) noexcept {
      while (blocked) std::this_thread::sleep_for(1ms);
      linear<8>::on<In>::refresh(context, a);
    }
  };
};
struct refresh_behind : model<input<float, 12>, linear<8>, gelu, late_refresh, linear<7>, softmax_cross_entropy> {};
struct gate_behind : model<input<float, 12>, linear<8>, gelu, gate, linear<7>, softmax_cross_entropy> {};
struct gate_before : model<input<float, 12>, gate, gelu, linear<8>, linear<7>, softmax_cross_entropy> {};

struct source_of_data {
  std::vector<float> inputs = std::vector<float>(8 * 12, 0.5f);
  std::vector<int> labels = std::vector<int>(8, 3);
  batch all() const { return batch(8).with("inputs", inputs).with("labels", labels); }
};

plan_options in_stages(int stages) { return {.stages = stages, .micro_batches = 4, .micro_batch_size = 2}; }

training_options ends_after(std::chrono::milliseconds deadline, deadline_action action = deadline_action::fail) {
  training_options how;
  how.cut = {2};
  how.deadline = deadline;
  how.on_deadline = action;
  return how;
}

struct ending {
  bool aborted = false;
  std::string printed{};
  std::chrono::steady_clock::duration took{};
};
/// Runs `body` in a child process.
template <class Body>
ending run_apart(Body body) {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  const auto began = std::chrono::steady_clock::now();
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    dup2(ends[1], STDERR_FILENO);
    close(ends[0]), close(ends[1]);
    std::signal(SIGABRT, SIG_DFL);  // not doctest's
    body();
    _exit(0);
  }
  close(ends[1]);
  ending found;
  char text[512];
  for (ssize_t n; (n = ::read(ends[0], text, sizeof text)) > 0;)
    found.printed.append(text, static_cast<std::size_t>(n));
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  found.aborted = WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
  found.took = std::chrono::steady_clock::now() - began;
  return found;
}

}  // namespace

TEST_CASE("a kernel that does not return on the calling thread ends the process, and the last line says where") {
  for (const auto& one : {std::pair{1, deadline_action::fail},
                          {2, deadline_action::fail},
                          {1, deadline_action::abort},
                          {2, deadline_action::abort}}) {
    const int stages = one.first;
    const deadline_action action = one.second;
    CAPTURE(stages);
    CAPTURE(static_cast<int>(action));
    const ending found = run_apart([stages, action] {
      const source_of_data source;
      training_options how = ends_after(300ms, action);
      if (stages == 1) how.cut = {};
      trainer<gate_before, sgd> training(in_stages(stages), sgd{}, how);
      blocked = true;
      try {
        training.step(source.all());
      } catch (...) {
      }
    });
    CHECK(found.aborted);
    CAPTURE(found.printed);
    CHECK(found.printed.find("gate, stage 0, micro-batch 3, forward, step 0: worker 0 has not returned "
                             "from its kernel for 300 ms, the deadline") != std::string::npos);
    CHECK(found.took < 4s);
  }
}

TEST_CASE("so does other code of the model on that thread, such as a hook") {
  const ending found = run_apart([] {
    const source_of_data source;
    training_options how = ends_after(200ms, deadline_action::abort);
    how.before = [](const instruction& i) {
      while (i.stage == 0 && i.kind == action_kind::backward) std::this_thread::sleep_for(1ms);
    };
    trainer<gate_before, sgd> training(in_stages(2), sgd{}, how);
    try {
      training.step(source.all());
    } catch (...) {
    }
  });
  CAPTURE(found.printed);
  CHECK(found.aborted);
  CHECK(found.printed.find("stage 0, micro-batch 0, backward, step 0: worker 0 has not returned") != std::string::npos);
}

TEST_CASE("a refresh that does not return is named with its layer") {
  const ending found = run_apart([] {
    const source_of_data source;
    plan_options both = in_stages(2);
    both.keep_packed_weights = true;  // one copy in turn is packed in the next forward
    trainer<refresh_behind, sgd> training(both, sgd{}, ends_after(200ms));
    training.step(source.all());
    blocked = true;
    try {
      training.step(source.all());
    } catch (const error& failure) {
      std::fputs(failure.what(), stderr);
    }
    _exit(0);
  });
  CAPTURE(found.printed);
  CHECK(found.printed.find("late_refresh, stage 1, update, step 1: worker 1 has not returned from its kernel") !=
        std::string::npos);
}

TEST_CASE("with abort and an endless deadline nothing ends") {
  const ending found = run_apart([] {
    const source_of_data source;
    training_options how = ends_after(1ms, deadline_action::abort);
    how.deadline = std::chrono::nanoseconds::max();
    trainer<gate_before, sgd> training(in_stages(2), sgd{}, how);
    for (int i = 0; i < 3; ++i) training.step(source.all());
    std::this_thread::sleep_for(300ms);
    training.step(source.all());
  });
  CHECK(!found.aborted);
  CHECK(found.printed.empty());
}

TEST_CASE("steps that take longer in all than the deadline go on") {
  for (const deadline_action action : {deadline_action::fail, deadline_action::abort}) {
    const ending found = run_apart([action] {
      const source_of_data source;
      trainer<gate_before, sgd> training(in_stages(2), sgd{}, ends_after(60ms, action));
      const auto began = std::chrono::steady_clock::now();
      while (std::chrono::steady_clock::now() - began < 1500ms) training.step(source.all());
      std::this_thread::sleep_for(1200ms);  // nor does a pause
      training.step(source.all());
    });
    CHECK(!found.aborted);
    CHECK(found.printed.empty());
  }
}

TEST_CASE("a kernel that does not return fails the step within a deadline and a second, and every later call") {
  const source_of_data source;
  auto training = std::make_unique<trainer<gate_behind, sgd>>(in_stages(2), sgd{}, ends_after(200ms));
  training->step(source.all());
  blocked = true;
  const auto began = std::chrono::steady_clock::now();
  std::string first;
  try {
    training->step(source.all());
  } catch (const error& e) {
    first = e.what();
    CHECK(e.where().layer.find("gate") != std::string::npos);
    CHECK(e.where().layer_index == 2);
    CHECK(e.where().stage == 1);
    CHECK(e.where().micro_batch == 3);  // the first of a fill-drain forward
    CHECK(e.where().action == "forward");
    CHECK(e.where().step == 1);
    CHECK(e.wrong() == "worker 1 has not returned from its kernel for 200 ms, the deadline");
  }
  CHECK(!first.empty());
  CHECK(std::chrono::steady_clock::now() - began < 1200ms + 300ms);  // a busy machine adds to it
  const auto says_so = [&](auto&& call) {
    try {
      call();
      FAIL_CHECK("no error");
    } catch (const error& e) {
      CHECK(std::string(e.what()) == first);
    }
  };
  says_so([&] { training->step(source.all()); });
  says_so([&] { training->accumulate(source.all()); });
  says_so([&] { training->discard_accumulated(); });
  says_so([&] { training->evaluate(source.all()); });
  says_so([&] { training->predict(source.all()); });
  says_so([&] { training->profile_layers(source.all()); });
  says_so([&] { training->layer_profile(); });
  says_so([&] { training->freeze(1); });
  says_so([&] { training->watch(1); });
  says_so([&] { training->array(0, "weight").values(); });
  says_so([&] { training->parameter_hash(); });
  says_so([&] { training->report(); });
  says_so([&] { training->trace(); });
  says_so([&] { training->reset_report(); });
  CHECK(training->steps() == 1);
  training.reset();
  blocked = false;  // the thread goes on in memory that is still there, and waits for work that never comes
  std::this_thread::sleep_for(50ms);
}

TEST_CASE("a kernel that returns after the deadline of a prediction writes to no memory of the caller") {
  const source_of_data source;
  trainer<gate_behind, sgd> training({.stages = 2, .micro_batch_size = 8}, sgd{}, ends_after(200ms));
  blocked = true, entered = false;
  CHECK_THROWS_AS(training.predict(source.all()), error);  // its rows are gone now
  CHECK(entered);
  CHECK_THROWS_AS(training.predict(source.all()), error);
  blocked = false;
  std::this_thread::sleep_for(100ms);  // the kernel returns, and its worker copies the rows
}

TEST_CASE("a failure elsewhere does not wait for a kernel that does not return; its cause is nested") {
  const source_of_data source;
  training_options how = ends_after(200ms);
  std::atomic<bool> throws{false};
  how.before = [&](const instruction& i) {
    if (throws && i.stage == 0 && i.kind == action_kind::forward && i.micro_batch == 1) {
      while (!entered) std::this_thread::yield();
      throw std::runtime_error("own failure");
    }
  };
  trainer<gate_behind, sgd> training(in_stages(2), sgd{}, how);
  entered = false;
  throws = blocked = true;
  try {
    training.step(source.all());
    FAIL_CHECK("no error");
  } catch (const error& e) {
    CAPTURE(std::string(e.what()));
    CHECK(e.where().stage == 1);
    bool found = false;
    const auto search = [&](auto&& self, const std::exception& at) -> void {
      found = found || std::string(at.what()).find("own failure") != std::string::npos;
      try {
        std::rethrow_if_nested(at);
      } catch (const std::exception& inner) {
        self(self, inner);
      }
    };
    search(search, e);
    CHECK(found);
  }
  blocked = false;
  std::this_thread::sleep_for(50ms);
}
