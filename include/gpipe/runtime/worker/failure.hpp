#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <limits>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gpipe/core/config.hpp>
#include <gpipe/core/error.hpp>
#include <gpipe/core/text/quantity.hpp>
#include <gpipe/core/text/quoted.hpp>
#include <gpipe/plan/schedule/contract/action.hpp>
#include <gpipe/runtime/stage/bound_stage.hpp>
#include <gpipe/runtime/step/step_context.hpp>
#include <gpipe/transport/contract/wait_limits.hpp>
#include <gpipe/transport/in_process/thread.hpp>

namespace gpipe::detail {

// change: an error location
/// The location of an instruction that runs; `known` has the fields that are already known.
inline GPIPE_COLD location location_of(const instruction& action, const bound_stage& stage, const step_context& step,
                                       location known = {}) {
  const bool computes = action.kind == action_kind::forward || action.kind == action_kind::recompute ||
                        action.kind == action_kind::backward || action.kind == action_kind::backward_input ||
                        action.kind == action_kind::backward_parameters || action.kind == action_kind::update;
  const auto* layer = stage.current();
  if (computes && layer != nullptr && known.layer_index < 0) {
    known.layer_index = layer->layer_index;
    known.layer = layer->layer->name;
    if (known.micro_batch < 0 && stage.current_micro_batch() >= 0)
      known.micro_batch = step.global_micro_batch(stage.current_micro_batch());
  }
  if (known.stage < 0) known.stage = action.stage;
  if (known.micro_batch < 0 && action.micro_batch >= 0) known.micro_batch = step.global_micro_batch(action.micro_batch);
  if (known.action.empty()) known.action = name_of(action.kind);
  known.step = static_cast<long>(step.step);
  return known;
}

[[noreturn]] inline GPIPE_COLD void throw_named(const instruction& action, const bound_stage& stage,
                                                const step_context& step, const std::string& wrong,
                                                const std::string& remedy, location known) {
  std::throw_with_nested(error(wrong, remedy, location_of(action, stage, step, std::move(known))));
}

/// The error of a worker whose kernel does not return. Nothing can be read any more: the worker may still write.
GPIPE_COLD inline error stuck_error(int worker, std::chrono::nanoseconds deadline, const location& position) {
  return error(
      concat({"worker ", worker, position.layer.empty() ? " has not returned" : " has not returned from its kernel",
              " for ", duration_text(deadline), ", the deadline"}),
      "this training is over, and its memory stays until the process ends; mend the kernel, or raise the "
      "deadline if it takes that long",
      position);
}

/// Called in a handler of an exception of an instruction. Throws an `error` with the location, as far as the exception
/// does not have it. `interrupted`, the failure of another worker, is thrown again as it is.
[[noreturn]] inline GPIPE_COLD void rethrow_named(const instruction& action, const bound_stage& stage,
                                                  const step_context& step) {
  try {
    throw;
  } catch (const interrupted&) {
    throw;
  } catch (const error& cause) {
    throw_named(action, stage, step, cause.wrong(), cause.remedy(), cause.where());
  } catch (const std::exception& cause) {
    throw_named(action, stage, step, cause.what(), "", {});
  } catch (...) {
    throw_named(action, stage, step, "an exception that is no std::exception was thrown", "", {});
  }
}

// change: a non-finite step
/// Throws the reason why a pass is not finite; `accumulated` calls of its step came before. `repeat()` runs the pass
/// again up to its decision, as a diagnosis, and throws an error that names the first layer with such a number.
template <class Repeat>
[[noreturn]] GPIPE_COLD void throw_nonfinite(step_context& step, const commit_decision& decision, int accumulated,
                                             Repeat&& repeat) {
  const auto where = location{.step = static_cast<long>(step.step)};
  if (const double weight = decision.result.found.weight;
      step.kind != pass_kind::accumulate && weight < static_cast<double>((std::numeric_limits<float>::min)()))
    throw_error({"the weights of the batch's samples sum to ", significant(weight, 3)},
                {weight > 0 ? "a float holds no mean over so little; give the samples larger weights"
                            : "give at least one sample a positive weight"},
                where);
  if (const loss_result* loss = decision.other_weight(); step.trains() && decision.result.finite && loss != nullptr)
    throw_error({"the weights of the loss ", quoted(loss->name), " sum to ", significant(loss->weight, 9),
                 ", but those of the main loss to ", significant(decision.result.found.weight, 9)},
                {"give both the same weights and rows, and ignore the same labels: a step divides all gradients by one "
                 "sum; parameters are as before the step"},
                where);
  step.begin(pass_kind::diagnose);
  repeat();
  if (step.trains() && accumulated > 0)
    throw error("the sum of the accumulated gradients is not finite, though those of this call are",
                "lower the learning rate or the loss; parameters are as before the step", where);
  if (!step.trains() || decision.result.holds)
    throw error("a number was not finite, but was finite when it was computed again",
                "check whether the data change during a step; parameters are as before", where);
  throw error("the norm of the gradient is not finite, though every gradient is",
              "lower the learning rate or the loss; parameters are as before the step", where);
}

/// The activity of a worker: it stays the same while a kernel, or other code of the model, runs.
struct activity {
  const void* instruction = nullptr;  ///< null: nothing
  const void* layer = nullptr;
  int micro_batch = -1;
  std::uint64_t ticks = 0;
  bool waits = false;  ///< for another worker

  bool operator==(const activity&) const = default;
};

/// A thread that detects that a worker's kernel does not return. It watches all workers, and is needed for the one
/// whose thread runs the pass, where nothing can throw while the kernel runs.
class watchdog {
 public:
  /// Calls `found(worker)` on its own thread once a worker's kernel has run for `limit` in one pass. After `quiet` it
  /// calls `runs_long(worker)` repeatedly, and then `runs_long(-1)` once.
  GPIPE_COLD watchdog(int workers, std::chrono::nanoseconds limit, std::chrono::nanoseconds quiet,
                      std::function<activity(int)> activity_of, std::function<void(int)> runs_long,
                      std::function<void(int)> found)
      : limit_(limit),
        quiet_(quiet),
        part_(std::clamp<std::chrono::nanoseconds>(quiet / 4, std::chrono::milliseconds(5), std::chrono::seconds(1))),
        activity_of_(std::move(activity_of)),
        runs_long_(std::move(runs_long)),
        found_(std::move(found)),
        seen_(index(workers)),
        thread_(start_thread("the watchdog of kernels", [this] { watch(); })) {}
  ~watchdog() {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      ending_ = true;
    }
    ends_.notify_one();
    thread_.join();
  }
  watchdog(const watchdog&) = delete;
  watchdog& operator=(const watchdog&) = delete;

  void begin_pass() noexcept { pass_.fetch_add(1, std::memory_order_relaxed); }

 private:
  struct sighting {
    activity seen{};
    std::uint64_t pass = 0;
    std::chrono::nanoseconds unchanged{0};
  };

  // Checks several times per limit, and each check counts no more than its interval: the time during which the process
  // was stopped (Ctrl-Z) is not counted.
  void watch() {
    std::unique_lock<std::mutex> lock(mutex_);
    while (!ends_.wait_for(lock, part_, [this] { return ending_; })) {
      const std::uint64_t pass = pass_.load(std::memory_order_relaxed);
      const bool before = std::exchange(any_runs_long_, false);
      for (std::size_t w = 0; w < seen_.size(); ++w) {
        sighting& last = seen_[w];
        const activity current = activity_of_(static_cast<int>(w));
        if (current.instruction != nullptr && !current.waits && current == last.seen && pass == last.pass)
          last.unchanged += part_;
        else last = {current, pass};
        if (last.unchanged >= limit_) return found_(static_cast<int>(w));  // and the thread ends
        if (last.unchanged < quiet_) continue;
        any_runs_long_ = true;
        runs_long_(static_cast<int>(w));
      }
      if (before && !any_runs_long_) runs_long_(-1);
    }
  }

  std::chrono::nanoseconds limit_, quiet_, part_;
  std::function<activity(int)> activity_of_;
  std::function<void(int)> runs_long_, found_;
  std::vector<sighting> seen_;  // [worker]
  std::atomic<std::uint64_t> pass_{0};
  bool any_runs_long_ = false;
  std::mutex mutex_;
  std::condition_variable ends_;
  bool ending_ = false;
  std::thread thread_;  // last: it uses the others
};

}  // namespace gpipe::detail
