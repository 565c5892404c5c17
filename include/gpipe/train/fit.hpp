#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <type_traits>
#include <vector>

#include <gpipe/core/clock.hpp>
#include <gpipe/record/progress.hpp>
#include <gpipe/runtime/step/step_result.hpp>
#include <gpipe/train/data/data_source.hpp>

namespace gpipe {

/// How `fit` goes over the data.
struct fit_options {
  int epochs = 1;
  int batch = 32;          ///< samples in a mini-batch, at most what the plan holds
  /// Of the order of samples, which differs from epoch to epoch. It is not the trainer's seed, and no checkpoint has
  /// it.
  std::uint64_t seed = 0;
  int accumulate = 1;      ///< mini-batches whose gradients are summed for one step
  int patience = 0;        ///< stop after this number of epochs without a lower held-out loss; 0: never
  /// At the end, take back the parameters and the state with the lowest held-out loss. They are copied into memory when
  /// that loss falls. Moments and steps stay as they are.
  bool restore_best = false;
  /// Where to begin, such as the `fit_progress::next` of a training that was stopped: the batches before it are left
  /// out. The order of batches does not depend on it. `epochs` counts from the first epoch on.
  data_position first{};

  int steps_per_epoch(int samples) const {
    const auto in_parts = [](int count, int size) { return size < 1 ? 0 : count / size + (count % size != 0); };
    return in_parts(in_parts(samples, batch), accumulate);
  }
};

/// The answer of a callback after a step: whether the training goes on.
enum class loop_control : bool { stop, go };

/// How a training ended.
struct fit_result {
  int epochs = 0;       ///< completed epochs, with those before `fit_options::first`
  bool stopped = false; ///< true if it ended before the last epoch, by the callback or by `patience`
  int best_epoch = 0;   ///< the epoch with the lowest held-out loss, counted from 1; 0: there was no held-out dataset
  double held_out = std::numeric_limits<double>::infinity();  ///< the held-out loss of the best epoch
  data_position next{};  ///< where another `fit` goes on: `fit_options::first`, if there was nothing left to do
};

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
  step_result (*evaluate)(void* training, const data_source&);
  void (*keep)(void* training, std::vector<std::byte>& into);  // parameters and state; null if it cannot
  void (*restore)(void* training, const std::vector<std::byte>& from);
  loop_control (*follow)(void* after, const fit_progress&);
};

template <class Trainer, class After>
fit_calls fit_calls_of(Trainer& training, After& after) {
  fit_calls calls{};
  calls.min_batch = training.min_batch();
  calls.training = &training;
  calls.after = const_cast<void*>(static_cast<const void*>(&after));
  calls.rate = [](void* of) { return static_cast<Trainer*>(of)->rate(); };
  calls.accumulate = [](void* of, const batch& data) {
    static_cast<void>(static_cast<Trainer*>(of)->accumulate(data));
  };
  calls.step = [](void* of, const batch& data) { return static_cast<Trainer*>(of)->step(data); };
  calls.evaluate = [](void* of, const data_source& data) { return static_cast<Trainer*>(of)->evaluate(data); };
  calls.keep = nullptr;
  calls.restore = nullptr;
  if constexpr (requires(std::vector<std::byte> & values) { training.keep_values(values); }) {
    calls.keep = [](void* of, std::vector<std::byte>& into) { static_cast<Trainer*>(of)->keep_values(into); };
    calls.restore = [](void* of, const std::vector<std::byte>& from) {
      static_cast<Trainer*>(of)->restore_values(from);
    };
  }
  calls.follow = [](void* of, const fit_progress& now) {
    After& call = *static_cast<After*>(of);
    if constexpr (std::is_same_v<decltype(call(now)), loop_control>) return call(now);
    else return call(now), loop_control::go;
  };
  return calls;
}

fit_result fit(const fit_calls& training, const data_source& data, const data_source* held_out, const fit_options& how);

#if GPIPE_BODIES
GPIPE_COLD GPIPE_INLINE void check_fit(const fit_calls& training, const data_source& data, const data_source* held_out,
                                       const fit_options& how) {
  if (how.accumulate < 1) throw_error({"accumulate is ", how.accumulate}, {"choose at least 1"});
  if (how.epochs < 0) throw_error({"epochs is ", how.epochs}, {"choose at least 0"});
  if (how.patience < 0) throw_error({"patience is ", how.patience}, {"choose a number of epochs, or 0 for no end"});
  if (how.patience != 0 && held_out == nullptr)
    throw_error({"patience is ", how.patience, " without a held-out dataset"},
                {"give fit a held-out dataset, or choose patience 0"});
  if (how.restore_best && held_out == nullptr)
    throw_error({"restore_best is true without a held-out dataset"},
                {"give fit a held-out dataset, or leave restore_best out"});
  if (how.restore_best && training.keep == nullptr)
    throw_error({"restore_best is true, but this trainer cannot keep its values"}, {"use gpipe::trainer"});
  // The source rejects a batch size below 1, and a first batch that does not exist.
  const int behind = how.batch > 0 ? data.samples() % how.batch : 0, last = behind > 0 ? behind : how.batch;
  if (how.batch > 0 && data.samples() > 0 && last < training.min_batch)
    throw_error({"an epoch's last batch of ", several(last, "sample"), " is too small for ", training.min_batch,
                 " replicas"},
                {"choose fewer replicas, or batches of another size"});
  if (how.batch > 0 && how.first.batch % how.accumulate != 0 &&
      how.first.batch != batches_of(data.samples(), how.batch))
    throw_error({"the first batch is ", how.first.batch, ", inside a step of ", how.accumulate, " batches"},
                {"choose a multiple of accumulate"});
}

/// The accuracy, if the loss counts the samples that the model got right.
GPIPE_COLD GPIPE_INLINE double accuracy_of(step_result found) {
  const row* const loss = result_source::of(found);
  return loss != nullptr && loss->correct >= 0 ? found.accuracy() : std::numeric_limits<double>::quiet_NaN();
}

/// The epoch's sums, from its first step here on.
struct epoch_sums {
  std::int64_t begin = now_ns(), waited = 0;
  double loss = 0, weight = 0;
  long samples = 0;

  const batch& next_of(data_stream& stream) {
    const std::int64_t asked = now_ns();
    const batch* const found = stream.next();
    waited += now_ns() - asked;
    if (found == nullptr) throw_error({"the data end before the epoch does"}, {"open all batches from the first on"});
    return *found;
  }
  void add(const step_result& found, fit_progress& now) {
    loss += found.loss * found.weight;
    weight += found.weight;
    samples += found.samples;
    const double elapsed = static_cast<double>((std::max)(now_ns() - begin, std::int64_t{1}));
    now.loss = loss / weight;
    now.step_loss = found.loss;
    now.norm = found.norm;
    now.samples_per_second = static_cast<double>(samples) / (elapsed * 1e-9);
    now.waiting = static_cast<double>(waited) / elapsed;
  }
};

GPIPE_INLINE fit_result fit(const fit_calls& training, const data_source& data, const data_source* held_out,
                            const fit_options& how) {
  check_fit(training, data, held_out, how);
  const auto epochs = static_cast<std::uint64_t>((std::max)(how.epochs, 0));
  const batch_order order{.size = how.batch, .shuffled = true, .seed = how.seed, .first = how.first, .epochs = epochs};
  data_position at = first_of(order, data.samples());
  const std::unique_ptr<data_stream> stream = data.open(order);
  const long parts = batches_of(data.samples(), how.batch);
  fit_result end{.epochs = static_cast<int>((std::min)(at.epoch, epochs))};
  end.next = at;
  const int first_epoch = end.epochs;  // epochs before it are no epochs without a lower loss
  std::vector<std::byte> best;
  bool best_is_last = true;
  for (; at.epoch < epochs && !end.stopped; at = {at.epoch + 1, 0}) {
    const int epoch = static_cast<int>(at.epoch) + 1;
    fit_progress now{.epoch = epoch,
                     .epochs = how.epochs,
                     .step = at.batch / how.accumulate,
                     .steps = how.steps_per_epoch(data.samples())};
    epoch_sums sums;
    while (at.batch < parts && !end.stopped) {
      const batch& next = sums.next_of(*stream);
      if (++at.batch % how.accumulate != 0 && at.batch != parts) {
        training.accumulate(training.training, next);
        continue;
      }
      now.rate = training.rate(training.training);
      sums.add(training.step(training.training, next), now);
      ++now.step;
      end.next = now.next = at.batch == parts ? data_position{at.epoch + 1, 0} : at;
      best_is_last = false;
      if (at.batch == parts) {
        end.epochs = epoch;
        if (held_out != nullptr) {
          const step_result found = training.evaluate(training.training, *held_out);
          now.held_out = found.loss;
          now.held_out_accuracy = accuracy_of(found);
        }
        if (now.held_out < end.held_out) {
          end.held_out = now.held_out;
          end.best_epoch = epoch;
          best_is_last = true;
          if (how.restore_best) training.keep(training.training, best);
        }
        end.stopped =
            held_out != nullptr && how.patience > 0 && epoch - (std::max)(end.best_epoch, first_epoch) >= how.patience;
      }
      if (training.follow(training.after, now) == loop_control::stop) end.stopped = true;
    }
  }
  if (!best.empty() && !best_is_last) training.restore(training.training, best);
  end.stopped = end.stopped && end.epochs < how.epochs;
  return end;
}
#endif

}  // namespace detail

/// Trains over shuffled batches of a `dataset`, `mapped_data`, `generated_data`, or another source. If given, calls
/// `after(fit_progress)` after each step; `after` may return `loop_control::stop`. A log is such a callback:
///
///     log_file log("run.csv");
///     fit(training, data, {.epochs = 10, .batch = 128}, log);
template <class Trainer, class After = detail::no_callback>
fit_result fit(Trainer& training, const data_source& data, const fit_options& how = {}, After&& after = {}) {
  return detail::fit(detail::fit_calls_of(training, after), data, nullptr, how);
}
/// The same, with an evaluation of `held_out` at the end of each epoch: the progress of the last step has its loss. The
/// training stops if that loss has not fallen for `how.patience` epochs.
template <class Trainer, class After = detail::no_callback>
fit_result fit(Trainer& training, const data_source& data, const data_source& held_out, const fit_options& how = {},
               After&& after = {}) {
  return detail::fit(detail::fit_calls_of(training, after), data, &held_out, how);
}

}  // namespace gpipe
