#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <vector>

#include <gpipe/core/build_mode.hpp>
#include <gpipe/core/descriptions/named_elsewhere.hpp>
#include <gpipe/record/progress.hpp>
#include <gpipe/runtime/step/step_result.hpp>
#include <gpipe/train/data/data_source.hpp>

namespace gpipe {

/// A lower learning rate where the held-out loss does not fall any more: PyTorch's ReduceLROnPlateau with its threshold
/// 0, and with a `patience` that is smaller by 1 there.
struct plateau_options {
  int patience = 0;     ///< epochs in a row without a lower held-out loss after which the rate is reduced; 0: never
  double factor = 0.1;  ///< of the rate, each time: above 0 and below 1
  double floor = 0;     ///< the smallest product of factors
  double begin = 1;     ///< the product before the first epoch: `fit_result::rate_factor` of a training that goes on
};

namespace broken {

template <class Given, bool Holds>
struct fit_has_a_batch {
  static_assert(Holds, "gpipe: .batch_size of fit is .batch here: fit(training, data, {.epochs = 10, .batch = 32})");
};
template <class Given, bool Holds>
struct fit_has_epochs {
  static_assert(Holds, "gpipe: .num_epochs of fit is .epochs here: fit(training, data, {.epochs = 10, .batch = 32})");
};
template <class Given, bool Holds>
struct fit_shuffles {
  static_assert(Holds,
                "gpipe: fit has no .shuffle: it reads the samples in an order that is a function of its .seed and of "
                "the epoch");
};
template <class Given, bool Holds>
struct fit_has_no_rate {
  static_assert(Holds,
                "gpipe: fit has no learning rate: it is the optimizer's, adamw{.learning_rate = 1e-3}, and "
                "training_options{.learning_rate_schedule} changes it from step to step");
};

}  // namespace broken

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
  /// At the end, take back the parameters and the state with the lowest held-out loss. Each process copies those that
  /// it has into memory when that loss falls. Moments and steps stay as they are.
  bool restore_best = false;
  plateau_options plateau{};  ///< multiplies the rate of the schedule
  /// Where to begin, such as the `fit_progress::next` of a training that was stopped: the batches before it are left
  /// out. The order of batches does not depend on it. `epochs` counts from the first epoch on. A position in batches of
  /// another size is converted if it is between two batches here; else it is refused, as one in an epoch of other data.
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

/// The answer of a callback after a step: whether the training goes on.
enum class loop_control : bool { stop, go };

/// How a training ended.
struct fit_result {
  int epochs = 0;        ///< completed epochs, with those before `fit_options::first`
  bool stopped = false;  ///< true if it ended before the last epoch, by the callback or by `patience`
  int best_epoch = 0;    ///< the epoch with the lowest held-out loss, counted from 1; 0: there was no held-out dataset
  double held_out = std::numeric_limits<double>::infinity();  ///< the held-out loss of the best epoch
  long steps_without_rate = 0;  ///< steps with the learning rate 0; the first one writes a line to stderr
  double rate_factor = 1;       ///< by `fit_options::plateau`
  data_position next{};         ///< where another `fit` goes on: `fit_options::first`, if there was nothing left to do
};

namespace broken {

template <class Second, bool Holds>
struct fit_begins_with_the_trainer {
  static_assert(Holds, "gpipe: fit takes the trainer first: fit(training, data), or fit(training, data, held_out)");
};

template <class Given, bool Holds>
struct fit_takes_data {
  static_assert(Holds,
                "gpipe: fit takes a dataset or another source of batches, and was given something else: "
                "fit(training, dataset{}.with(\"inputs\", 64, pixels).with(\"labels\", 1, digits))");
};
template <class Given, bool Holds>
struct fit_calls_a_function {
  static_assert(Holds,
                "gpipe: behind the options stands the function that fit calls after each step, [](const fit_progress& "
                "now) { ... }; held-out data stand before the options");
};
template <class Returned, bool Holds>
struct fit_goes_on_or_stops {
  static_assert(Holds,
                "gpipe: the function that fit calls returns loop_control::go or loop_control::stop, or nothing; a bool "
                "or a number says neither");
};
template <class Given, bool Holds>
struct fit_takes_options {
  static_assert(Holds, "gpipe: the number of epochs is an option of fit: fit(training, data, {.epochs = 10})");
};

}  // namespace broken

namespace detail {

struct no_callback {
  void operator()(const fit_progress&) const {}
};

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
/// training stops if that loss has not fallen for `how.patience` epochs.
template <class Trainer, class After = detail::no_callback>
fit_result fit(Trainer& training, const data_source& data, const data_source& held_out, const fit_options& options = {},
               After&& after = {}) {
  return detail::fit(detail::fit_calls_of(training, after), data, &held_out, options);
}

// No source of data, and a number in the place of the options: these are here for the error.
template <class Trainer, class Given, class... More>
requires(!std::derived_from<Trainer, data_source> && !std::derived_from<Given, data_source>) fit_result
    fit(Trainer&, const Given&, const More&...) {
  static_assert(sizeof(broken::fit_takes_data<Given, std::derived_from<Given, data_source>>) > 0);
  return {};
}
template <class Trainer, class Given>
requires(!std::derived_from<Trainer, data_source> && !std::derived_from<Given, data_source>) fit_result
    fit(Trainer&, const Given&, const fit_options&) {  // options in braces
  static_assert(sizeof(broken::fit_takes_data<Given, std::derived_from<Given, data_source>>) > 0);
  return {};
}
template <class Trainer, class Number>
requires std::is_arithmetic_v<Number> fit_result fit(Trainer&, const data_source&, Number) {
  static_assert(sizeof(broken::fit_takes_options<Number, std::is_class_v<Number>>) > 0);
  return {};
}
// The data stand first: this is here for the error.
template <class Second>
requires(!std::derived_from<Second, data_source>) fit_result fit(const data_source&, Second&, const fit_options& = {}) {
  static_assert(sizeof(broken::fit_begins_with_the_trainer<Second, std::derived_from<Second, data_source>>) > 0);
  return {};
}

}  // namespace gpipe

#if !GPIPE_COMPILED
#include <gpipe/train/fit-inl.hpp>
#endif
