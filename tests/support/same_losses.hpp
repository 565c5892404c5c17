#pragma once

#include <cstdint>
#include <vector>

#include <gpipe/train/trainer.hpp>

#include <gpipe/make_plan.hpp>

namespace laws {

/// The losses of some steps and the hash of all parameters, with samples of noise. A label is below `classes`; a model
/// without labels has labels of 0 or 1 for each of `targets` numbers.
struct trained_images {
  int pixels, classes, targets = 0, samples = 6;

  template <class Model>
  std::vector<double> run(const gpipe::plan_options& plan, const gpipe::training_options& how = {},
                          int steps = 3) const {
    gpipe::trainer<Model, gpipe::adam> training{plan, gpipe::adam{.learning_rate = 0.002}, how};
    std::vector<float> x(static_cast<std::size_t>(samples * pixels)), t(static_cast<std::size_t>(samples * targets));
    std::vector<std::int32_t> labels(static_cast<std::size_t>(samples));
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>((i * 37 + i / 7 * 5) % 41) / 20 - 1;
    for (std::size_t i = 0; i < t.size(); ++i) t[i] = static_cast<float>(i / 3 % 2);
    for (std::size_t i = 0; i < labels.size(); ++i) labels[i] = static_cast<std::int32_t>(i) % classes;
    gpipe::batch all = gpipe::batch(samples).with("inputs", x);
    if (targets > 0) all = all.with("labels", t);
    else all = all.with("labels", labels);
    std::vector<double> found;
    for (int step = 0; step < steps; ++step) found.push_back(training.step(all).loss);
    found.push_back(static_cast<double>(training.parameter_hash() >> 12));
    found.push_back(training.evaluate(all).loss);
    return found;
  }
};

}  // namespace laws
