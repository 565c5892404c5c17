#pragma once

#include <gpipe/record/progress.hpp>
#include <gpipe/record/trace.hpp>
#include <gpipe/runtime/commit.hpp>
#include <gpipe/train/dataset.hpp>

namespace gpipe {

/// How a training goes over its data.
struct loop {
  int epochs = 1;
  int batch = 32;          ///< samples in a mini-batch, at most what the plan holds
  std::uint64_t seed = 0;  ///< of the order of samples, which differs from epoch to epoch

  int steps_per_epoch(int samples) const { return batch < 1 ? 0 : samples / batch + (samples % batch != 0); }
};

/// Trains over shuffled batches; `after(standing)` is called after each step, with the epoch's mean loss so far.
template <class Trainer, class After>
void fit(Trainer& training, const dataset& data, const loop& how, After&& after) {
  const int steps = how.steps_per_epoch(data.samples());
  for (int epoch = 0; epoch < how.epochs; ++epoch) {
    const std::int64_t begin = now_ns();
    double loss = 0, weight = 0;
    long step = 0, samples = 0;
    for (const batch& part : data.shuffled(how.batch, how.seed, static_cast<std::uint64_t>(epoch))) {
      const double rate = training.rate();
      const outcome found = training.step(part);
      loss += found.loss * found.weight;
      weight += found.weight;
      samples += found.samples;
      ++step;
      const double seconds = static_cast<double>(now_ns() - begin) * 1e-9;
      after(standing{epoch + 1, how.epochs, step, steps, loss / weight, rate, static_cast<double>(samples) / seconds});
    }
  }
}

}  // namespace gpipe
