#pragma once

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

#include <gpipe/core/descriptions/optimizer.hpp>
#include <gpipe/make_plan.hpp>
#include <gpipe/train/trainer.hpp>

#include "support/reference/vision_networks.hpp"
#include "support/torch_number.hpp"

namespace laws {

/// What PyTorch has of a network: tests/support/reference/vision_networks.py.
template <std::size_t Parameters, std::size_t Averages>
struct torch_training {
  int height, width;
  double rate;
  const double (&losses)[reference::vision_networks::steps];
  const double (&products)[reference::vision_networks::steps][Parameters];  ///< a step, a parameter
  const double (&averages)[Averages];
};
template <std::size_t Parameters, std::size_t Averages>
torch_training(int, int, double, const double (&)[reference::vision_networks::steps],
               const double (&)[reference::vision_networks::steps][Parameters], const double (&)[Averages])
    -> torch_training<Parameters, Averages>;

/// The distance of x's inner product with a stream of numbers from `want`, relative to the sum of the terms'
/// magnitudes.
template <class T>
double distance_of_product(const std::vector<T>& x, double want) {
  double sum = 0, magnitudes = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double term = static_cast<double>(x[i]) * torch_number(11, i);
    sum += term;
    magnitudes += std::fabs(term);
  }
  return std::fabs(sum - want) / (1 + magnitudes);
}

/// The parameter's first values: parameter k in model order is stream k + 1, scaled as its extents say.
template <class T>
std::vector<T> first_values_of(const std::vector<int>& extents, std::string_view name, std::size_t k) {
  std::size_t size = 1;
  for (const int extent : extents) size *= static_cast<std::size_t>(extent);
  const std::size_t fan_in = extents.size() == 4   ? size / static_cast<std::size_t>(extents[3])
                             : extents.size() == 2 ? static_cast<std::size_t>(extents[1])
                                                   : 0;
  std::vector<T> x(size);
  for (std::size_t i = 0; i < size; ++i) {
    const double value = torch_number(k + 1, i);
    x[i] = static_cast<T>(fan_in > 0         ? value * std::sqrt(6 / static_cast<double>(fan_in))
                          : name == "weight" ? 1 + value / 4
                                             : value / 4);
  }
  return x;
}

/// Three steps of training give PyTorch's losses, parameters and averages.
template <class Net, class T, class Want>
void trains_like_torch(const Want& want, int stages) {
  namespace known = reference::vision_networks;
  constexpr double tolerance = std::is_same_v<T, float> ? 1e-4 : 1e-9;
  constexpr int count = known::micro_batches * known::samples;
  gpipe::trainer<Net, gpipe::sgd> training{
      {.stages = stages, .micro_batches = known::micro_batches, .micro_batch_size = known::samples},
      gpipe::sgd{.learning_rate = want.rate, .momentum = known::momentum}};
  std::size_t k = 0;
  for (auto& p : training.parameters())
    if (p.kind == gpipe::array_kind::parameter) p.set(first_values_of<T>(p.extents, p.name, k)), ++k;
  REQUIRE(k == std::size(want.products[0]));

  std::vector<std::int32_t> labels(count);
  for (std::size_t i = 0; i < count; ++i) labels[i] = static_cast<std::int32_t>(i * 3 % known::classes);
  std::vector<T> images(static_cast<std::size_t>(count * want.height * want.width * 3));
  for (std::size_t step = 0; step < known::steps; ++step) {
    CAPTURE(step);
    for (std::size_t i = 0; i < images.size(); ++i) images[i] = static_cast<T>(torch_number(1000 + step, i));
    gpipe::batch all(count);
    all.with("inputs", images).with("labels", labels);
    CHECK(std::fabs(training.step(all).loss - want.losses[step]) < tolerance);
    k = 0;
    for (const auto& p : training.parameters())
      if (p.kind == gpipe::array_kind::parameter) {
        CAPTURE(p.path);
        CHECK(distance_of_product(p.template values<T>(), want.products[step][k++]) < tolerance);
      }
  }
  k = 0;
  for (const auto& p : training.parameters())
    if (p.kind == gpipe::array_kind::state) {
      CAPTURE(p.path);
      CHECK(distance_of_product(p.template values<T>(), want.averages[k++]) < tolerance);
    }
  CHECK(k == std::size(want.averages));
}

}  // namespace laws
