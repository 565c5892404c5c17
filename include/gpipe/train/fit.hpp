#pragma once

#include <cstdint>
#include <limits>
#include <type_traits>

#include <gpipe/record/progress.hpp>
#include <gpipe/record/trace.hpp>
#include <gpipe/runtime/step/step_result.hpp>
#include <gpipe/train/data/dataset.hpp>

namespace gpipe {

/// How `fit` goes over the data.
struct fit_options {
  int epochs = 1;
  int batch = 32;          ///< samples in a mini-batch, at most what the plan holds
  std::uint64_t seed = 0;  ///< of the order of samples, which differs from epoch to epoch
  int accumulate = 1;      ///< mini-batches whose gradients are summed for one step
  int patience = 0;        ///< stop after this number of epochs without a lower held-out loss; 0: never

  int steps_per_epoch(int samples) const {
    const auto in_parts = [](int count, int size) { return size < 1 ? 0 : count / size + (count % size != 0); };
    return in_parts(in_parts(samples, batch), accumulate);
  }
};

/// The answer of a callback after a step: whether the training goes on.
enum class loop_control : bool { stop, go };

/// How a training ended. Its parameters are those of the last step, not of the best epoch.
struct fit_result {
  int epochs = 0;       ///< completed epochs
  bool stopped = false; ///< true if it ended before the last epoch, by the callback or by `patience`
  int best_epoch = 0;   ///< the epoch with the lowest held-out loss, counted from 1; 0: there was no held-out dataset
  double held_out = std::numeric_limits<double>::infinity();  ///< the held-out loss of the best epoch
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
  double (*held_out_loss)(void* training, const dataset&);
  loop_control (*follow)(void* after, const fit_progress&);
};

template <class Trainer, class After>
fit_calls fit_calls_of(Trainer& training, After& after) {
  fit_calls calls{};
  calls.min_batch = training.min_batch();
  calls.training = &training;
  calls.after = const_cast<void*>(static_cast<const void*>(&after));
  calls.rate = [](void* of) { return static_cast<Trainer*>(of)->rate(); };
  calls.accumulate = [](void* of, const batch& data) { static_cast<void>(static_cast<Trainer*>(of)->accumulate(data)); };
  calls.step = [](void* of, const batch& data) { return static_cast<Trainer*>(of)->step(data); };
  calls.held_out_loss = [](void* of, const dataset& data) { return static_cast<Trainer*>(of)->evaluate(data).loss; };
  calls.follow = [](void* of, const fit_progress& now) {
    After& call = *static_cast<After*>(of);
    if constexpr (std::is_same_v<decltype(call(now)), loop_control>) return call(now);
    else return call(now), loop_control::go;
  };
  return calls;
}

fit_result fit(const fit_calls& training, const dataset& data, const dataset* held_out, const fit_options& how);

#if GPIPE_BODIES
GPIPE_INLINE fit_result fit(const fit_calls& training, const dataset& data, const dataset* held_out,
                            const fit_options& how) {
  if (how.accumulate < 1) throw_error({"accumulate is ", how.accumulate}, {"choose at least 1"});
  if (how.patience != 0 && held_out == nullptr)
    throw_error({"patience is ", how.patience, " without a held-out dataset"},
                {"give fit a held-out dataset, or choose patience 0"});
  // The dataset rejects a batch size below 1.
  const int behind = how.batch > 0 ? data.samples() % how.batch : 0, last = behind > 0 ? behind : how.batch;
  if (how.batch > 0 && data.samples() > 0 && last < training.min_batch)
    throw_error({"an epoch's last batch of ", several(last, "sample"), " is too small for ", training.min_batch,
                 " replicas"},
                {"choose fewer replicas, or batches of another size"});
  const int steps = how.steps_per_epoch(data.samples());
  fit_result end;
  for (int epoch = 1; epoch <= how.epochs && !end.stopped; ++epoch) {
    const std::int64_t begin = now_ns();
    fit_progress now{.epoch = epoch, .epochs = how.epochs, .steps = steps};
    double loss = 0, weight = 0;
    long samples = 0;
    auto parts = data.shuffled(how.batch, how.seed, static_cast<std::uint64_t>(epoch) - 1);
    int part = 0;
    for (const batch& next : parts) {
      if (++part % how.accumulate != 0 && part != parts.count()) {
        training.accumulate(training.training, next);
        continue;
      }
      now.rate = training.rate(training.training);
      const step_result found = training.step(training.training, next);
      loss += found.loss * found.weight;
      weight += found.weight;
      samples += found.samples;
      ++now.step;
      now.loss = loss / weight;
      now.samples_per_second = static_cast<double>(samples) / (static_cast<double>(now_ns() - begin) * 1e-9);
      if (now.step == steps) {
        end.epochs = epoch;
        if (held_out != nullptr) now.held_out = training.held_out_loss(training.training, *held_out);
        if (now.held_out < end.held_out) end.held_out = now.held_out, end.best_epoch = epoch;
        end.stopped = held_out != nullptr && how.patience > 0 && epoch - end.best_epoch >= how.patience;
      }
      if (training.follow(training.after, now) == loop_control::stop) end.stopped = true;
      if (end.stopped) break;
    }
  }
  end.stopped = end.stopped && end.epochs < how.epochs;
  return end;
}
#endif

}  // namespace detail

/// Trains over shuffled batches. If given, calls `after(fit_progress)` after each step, with the epoch's mean loss so far; `after`
/// may return `loop_control::stop`.
template <class Trainer, class After = detail::no_callback>
fit_result fit(Trainer& training, const dataset& data, const fit_options& how = {}, After&& after = {}) {
  return detail::fit(detail::fit_calls_of(training, after), data, nullptr, how);
}
/// The same, with an evaluation of `held_out` at the end of each epoch: the progress of the last step has its loss. The
/// training stops if that loss has not fallen for `how.patience` epochs.
template <class Trainer, class After = detail::no_callback>
fit_result fit(Trainer& training, const dataset& data, const dataset& held_out, const fit_options& how = {},
               After&& after = {}) {
  return detail::fit(detail::fit_calls_of(training, after), data, &held_out, how);
}

}  // namespace gpipe
