#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <vector>

#include <gpipe/core/config.hpp>
#include <gpipe/core/included.hpp>
#include <gpipe/record/progress.hpp>
#include <gpipe/runtime/step/step_result.hpp>
#include <gpipe/train/data/data_source.hpp>
#include <gpipe/train/fit_mistakes.hpp>

namespace gpipe {

/// Lowers the learning rate when the held-out loss stops falling: PyTorch's ReduceLROnPlateau with threshold 0; its
/// `patience` is smaller by 1 than this one.
struct plateau_options {
  int patience = 0;     ///< epochs in a row without a lower held-out loss after which the rate is reduced; 0: never
  double factor = 0.1;  ///< of the rate, each time: above 0 and below 1
  double floor = 0;     ///< the smallest product of factors
  double begin = 1;     ///< the product before the first epoch: `fit_result::rate_factor` when a training is resumed
};

// change: a fit option
/// How `fit` goes over the data.
struct fit_options {
  int epochs = 1;
  /// Samples in a mini-batch, at most what the plan holds. `batches_by_length` chooses the sizes of its batches itself.
  int batch = 32;
  /// The seed of the order of samples, which differs from epoch to epoch. It is not the trainer's seed, and no
  /// checkpoint has it.
  std::uint64_t seed = 0;
  int accumulate = 1;  ///< mini-batches whose gradients are summed for one step
  int patience = 0;    ///< stop after this number of epochs without a lower held-out loss; 0: never
  /// At the end, restore the parameters and the state with the lowest held-out loss. Each process copies its own arrays
  /// into memory when that loss falls. Moments and steps stay as they are.
  bool restore_best = false;
  plateau_options plateau{};  ///< multiplies the rate of the schedule
  /// The position at which to begin, such as the `fit_progress::next` of a stopped training: earlier batches are
  /// skipped. The order of batches does not depend on it. `epochs` counts from the first epoch on. A position in
  /// batches of another size is converted if it is between two batches of this size; else it is refused, as is a
  /// position in an epoch of other data.
  data_position first{};
  [[no_unique_address]] detail::named_elsewhere<broken::fit_has_a_batch> batch_size{};
  [[no_unique_address]] detail::named_elsewhere<broken::fit_has_epochs> num_epochs{};
  [[no_unique_address]] detail::named_elsewhere<broken::fit_shuffles> shuffle{};
  [[no_unique_address]] detail::named_elsewhere<broken::fit_has_no_rate> learning_rate{};

  int steps_per_epoch(int samples) const {
    const auto in_parts = [](int count, int size) { return size < 1 ? 0 : count / size + (count % size != 0); };
    return in_parts(in_parts(samples, batch), accumulate);
  }
};

/// The result of a callback after a step: whether the training continues.
enum class loop_control : bool { stop, go };

/// How a training ended.
struct fit_result {
  int epochs = 0;        ///< completed epochs, with those before `fit_options::first`
  bool stopped = false;  ///< true if it ended before the last epoch, by the callback or by `patience`
  int best_epoch = 0;    ///< the epoch with the lowest held-out loss, counted from 1; 0: there was no held-out dataset
  double held_out = std::numeric_limits<double>::infinity();  ///< the held-out loss of the best epoch
  long steps_without_rate = 0;  ///< steps with the learning rate 0; the first one writes a line to stderr
  double rate_factor = 1;       ///< by `fit_options::plateau`
  data_position next{};  ///< where another `fit` continues: `fit_options::first`, if there was nothing left to do
};

namespace detail {

struct no_callback {
  void operator()(const fit_progress&) const {}
};

// change: a fit option; a call of the trainer that it needs
/// A trainer and a callback without their types: the calls that `fit` makes.
struct fit_calls {
  int min_batch;
  void* training;
  void* after;
  double (*rate)(void* training);
  void (*accumulate)(void* training, const batch&);
  step_result (*step)(void* training, const batch&);
  step_result (*step_at)(void* training, const batch&, double rate);  // null if the trainer has no such step
  step_result (*evaluate)(void* training, const data_source&);
  void (*keep)(void* training, std::vector<std::byte>& values);  // parameters and state; null if it cannot
  void (*restore)(void* training, const std::vector<std::byte>& values);
  loop_control (*follow)(void* after, const fit_progress&);
};

template <class Trainer, class After>
fit_calls fit_calls_of(Trainer& training, After& after) {
  fit_calls calls{};
  calls.min_batch = training.min_batch();
  calls.training = &training;
  calls.after = const_cast<void*>(static_cast<const void*>(&after));
  calls.rate = [](void* trainer) { return static_cast<Trainer*>(trainer)->rate(); };
  calls.accumulate = [](void* trainer, const batch& data) {
    static_cast<void>(static_cast<Trainer*>(trainer)->accumulate(data));
  };
  calls.step = [](void* trainer, const batch& data) { return static_cast<Trainer*>(trainer)->step(data); };
  calls.step_at = nullptr;
  if constexpr (requires(const batch& data) { training.step(data, 1.0); })
    calls.step_at = [](void* trainer, const batch& data, double rate) {
      return static_cast<Trainer*>(trainer)->step(data, rate);
    };
  calls.evaluate = [](void* trainer, const data_source& data) {
    return static_cast<Trainer*>(trainer)->evaluate(data);
  };
  calls.keep = nullptr;
  calls.restore = nullptr;
  if constexpr (requires(std::vector<std::byte> & values) { training.keep_own_values(values); }) {
    calls.keep = [](void* trainer, std::vector<std::byte>& values) {
      static_cast<Trainer*>(trainer)->keep_own_values(values);
    };
    calls.restore = [](void* trainer, const std::vector<std::byte>& values) {
      static_cast<Trainer*>(trainer)->restore_own_values(values);
    };
  } else if constexpr (requires(std::vector<std::byte> & values) { training.keep_values(values); }) {
    calls.keep = [](void* trainer, std::vector<std::byte>& values) {
      static_cast<Trainer*>(trainer)->keep_values(values);
    };
    calls.restore = [](void* trainer, const std::vector<std::byte>& values) {
      static_cast<Trainer*>(trainer)->restore_values(values);
    };
  }
  calls.follow = [](void* callback, const fit_progress& progress) {
    After& call = *static_cast<After*>(callback);
    if constexpr (!std::is_invocable_v<After&, const fit_progress&>) {
      static_assert(sizeof(broken::fit_calls_a_function<After, std::is_invocable_v<After&, const fit_progress&>>) > 0);
      return loop_control::go;
    } else {
      using returned = decltype(call(progress));
      static_assert(sizeof(broken::fit_goes_on_or_stops<returned, !std::is_arithmetic_v<returned>>) > 0);
      if constexpr (std::is_same_v<returned, loop_control>) return call(progress);
      else return call(progress), loop_control::go;
    }
  };
  return calls;
}

fit_result fit(const fit_calls& training, const data_source& data, const data_source* held_out,
               const fit_options& options);

}  // namespace detail

/// Trains over shuffled batches of a `dataset`, `mapped_data`, `generated_data`, or another source. If given, calls
/// `after(fit_progress)` after each step; `after` may return `loop_control::stop`. A log is such a callback:
///
///     log_file log("run.csv");
///     fit(training, data, {.epochs = 10, .batch = 128}, log);
template <class Trainer, class After = detail::no_callback>
fit_result fit(Trainer& training, const data_source& data, const fit_options& options = {}, After&& after = {}) {
  return detail::fit(detail::fit_calls_of(training, after), data, nullptr, options);
}
/// The same, with an evaluation of `held_out` at the end of each epoch: the progress of the last step has its loss. The
/// training stops if that loss has not fallen for `options.patience` epochs.
template <class Trainer, class After = detail::no_callback>
fit_result fit(Trainer& training, const data_source& data, const data_source& held_out, const fit_options& options = {},
               After&& after = {}) {
  return detail::fit(detail::fit_calls_of(training, after), data, &held_out, options);
}

}  // namespace gpipe

#if !GPIPE_COMPILED
#include <gpipe/train/fit-inl.hpp>
#endif
