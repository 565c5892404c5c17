#pragma once

// A small training and data for it, for the tests of the trainer.

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include <gpipe/make_plan.hpp>
#include <gpipe/runtime/executor.hpp>
#include <gpipe/train/data/dataset.hpp>
#include <gpipe/train/trainer.hpp>

#include "support/layers.hpp"

namespace small {

using namespace gpipe;

struct net : model<input<float, 4>, laws::halve, laws::cross, laws::join, laws::passing_loss> {};
using training = trainer<net, adam>;

inline const std::vector<float> x{1, 0, 2, 1, 0, 1, 1, 3, 2, 2, 0, 1, 1, 1, 0, 2, 3, 1, 1, 0};
inline const std::vector<std::int32_t> labels{0, 1, 2, 3, 0};
inline const dataset data = dataset{}.with("inputs", 4, x).with("labels", 1, labels);
inline const batch all = batch(5).with("inputs", x).with("labels", labels);
inline constexpr plan_options two{.stages = 2, .micro_batches = 2, .micro_batch_size = 3};

/// The samples [first, first + n).
inline batch some(int first, int n) {
  const auto rows = [&](const auto& from, std::size_t wide) {
    return std::span(from).subspan(wide * static_cast<std::size_t>(first), wide * static_cast<std::size_t>(n));
  };
  batch b(n);
  return b.with("inputs", rows(x, 4)).with("labels", rows(labels, 1));
}

/// `call` throws an error that contains `what`.
inline void rejects(const char* what, const std::function<void()>& call) {
  CHECK_THROWS_WITH_AS(call(), doctest::Contains(what), error);
}

}  // namespace small
