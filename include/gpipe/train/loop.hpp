#pragma once

#include <limits>
#include <type_traits>

#include <gpipe/record/progress.hpp>
#include <gpipe/record/trace.hpp>
#include <gpipe/runtime/step/step_result.hpp>
#include <gpipe/train/dataset.hpp>

namespace gpipe {

/// How a training goes over its data.
struct loop {
  int epochs = 1;
  int batch = 32;          ///< samples in a mini-batch, at most what the plan holds
  std::uint64_t seed = 0;  ///< of the order of samples, which differs from epoch to epoch
  int accumulate = 1;      ///< mini-batches whose gradients are summed for one step
  int patience = 0;        ///< epochs in a row without a lower held-out loss, after which it stops; 0: any

  int steps_per_epoch(int samples) const {
    const auto in_parts = [](int count, int size) { return size < 1 ? 0 : count / size + (count % size != 0); };
    return in_parts(in_parts(samples, batch), accumulate);
  }
};

/// What may be answered after a step: whether the training goes on.
enum class onward : bool { stop, go };

/// How a training ended. Its parameters are those of the last step, not of the best epoch.
struct ending {
  int epochs = 0;       ///< gone over to their end
  bool stopped = false; ///< before all of them, by `after` or for lack of patience
  int best_epoch = 0;   ///< that with the lowest held-out loss, counted from 1; 0: nothing was held out
  double held_out = std::numeric_limits<double>::infinity();  ///< its loss
};

namespace detail {

template <class Trainer, class After>
ending fit(Trainer& training, const dataset& data, const dataset* held_out, const loop& how, After& after) {
  if (how.accumulate < 1)
    refuse({"a step of ", how.accumulate, " mini-batches"}, {"choose at least 1"});
  if (how.patience != 0 && held_out == nullptr)
    refuse({"patience, and no data held out to lose it over"}, {"give fit a held-out dataset, or a patience of 0"});
  // Batches of no sample are refused by who makes them.
  const int behind = how.batch > 0 ? data.samples() % how.batch : 0, last = behind > 0 ? behind : how.batch;
  if (how.batch > 0 && data.samples() > 0 && last < training.least_samples())
    refuse({"an epoch's last batch of ", several(last, "sample"), " is too small for ", training.least_samples(),
            " replicas"},
           {"choose fewer replicas, or batches of another size"});
  const int steps = how.steps_per_epoch(data.samples());
  ending end;
  for (int epoch = 1; epoch <= how.epochs && !end.stopped; ++epoch) {
    const std::int64_t begin = now_ns();
    standing now{.epoch = epoch, .epochs = how.epochs, .steps = steps};
    double loss = 0, weight = 0;
    long samples = 0;
    auto parts = data.shuffled(how.batch, how.seed, static_cast<std::uint64_t>(epoch) - 1);
    int part = 0;
    for (const batch& next : parts) {
      if (++part % how.accumulate != 0 && part != parts.count()) {
        training.accumulate(next);
        continue;
      }
      now.rate = training.rate();
      const gpipe::outcome found = training.step(next);
      loss += found.loss * found.weight;
      weight += found.weight;
      samples += found.samples;
      ++now.step;
      now.loss = loss / weight;
      now.samples_per_second = static_cast<double>(samples) / (static_cast<double>(now_ns() - begin) * 1e-9);
      if (now.step == steps) {
        end.epochs = epoch;
        if (held_out != nullptr) now.held_out = training.evaluate(*held_out).loss;
        if (now.held_out < end.held_out) end.held_out = now.held_out, end.best_epoch = epoch;
        end.stopped = held_out != nullptr && how.patience > 0 && epoch - end.best_epoch >= how.patience;
      }
      if constexpr (std::is_same_v<decltype(after(now)), onward>) {
        if (after(now) == onward::stop) end.stopped = true;
      } else after(now);
      if (end.stopped) break;
    }
  }
  end.stopped = end.stopped && end.epochs < how.epochs;
  return end;
}

}  // namespace detail

/// Trains over shuffled batches; `after(standing)` is called after each step, with the epoch's mean loss so far. It may
/// return `onward::stop`.
template <class Trainer, class After>
ending fit(Trainer& training, const dataset& data, const loop& how, After&& after) {
  return detail::fit(training, data, nullptr, how, after);
}
/// The same, with an evaluation of `held_out` at the end of each epoch: the last step's standing has its loss, and the
/// training stops when that has not fallen for `how.patience` epochs.
template <class Trainer, class After>
ending fit(Trainer& training, const dataset& data, const dataset& held_out, const loop& how, After&& after) {
  return detail::fit(training, data, &held_out, how, after);
}

}  // namespace gpipe
