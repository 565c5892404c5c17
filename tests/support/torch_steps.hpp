#pragma once

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

#include <gpipe/runtime/step/batch.hpp>

#include "support/reference/token_layers.hpp"

namespace laws {

/// Numbers in [-1, 1]. The scripts in tests/support/reference have the same.
template <class T>
std::vector<T> stream_of(int stream, std::size_t count) {
  std::vector<T> found(count);
  for (std::size_t i = 0; i < count; ++i)
    found[i] = static_cast<T>(static_cast<double>((static_cast<int>(i) * 37 + stream * 11) % 41) / 20 - 1);
  return found;
}

/// Parameter k in model order is stream `first` + k.
template <class T, class Training>
void set_streams(Training& training, int first = 0) {
  for (auto& p : training.parameters()) p.set(stream_of<T>(first++, p.size()));
}

/// The tokens and labels of tests/support/reference/token_layers.py; weights, and some labels that are ignored.
struct token_rows {
  std::vector<std::int32_t> tokens, labels;
  std::vector<float> weights;

  explicit token_rows(bool ignores = false) {
    namespace known = reference::token_layers;
    for (int i = 0; i < known::samples * known::tokens; ++i) {
      tokens.push_back(i * i % known::vocabulary);
      labels.push_back(ignores && i % 3 == 1 ? -100 : i * 5 % known::vocabulary);
      weights.push_back(0.25F * static_cast<float>(1 + i % 4));
    }
  }
  gpipe::batch inputs() const { return gpipe::batch(reference::token_layers::samples).with("inputs", tokens); }
  gpipe::batch labelled() const { return inputs().with("labels", labels); }
  gpipe::batch weighted() const { return labelled().with("weights", weights); }
};

/// Three steps give PyTorch's losses, the last one in evaluation, and its parameters.
template <class T, class Training>
void has_torch_steps(Training& training, const gpipe::batch& data, std::span<const double> losses,
                     std::span<const double> after) {
  constexpr double tolerance = std::is_same_v<T, float> ? 1e-4 : 1e-9;
  for (std::size_t step = 0; step < 3; ++step)
    CHECK(std::fabs(training.step(data).loss - losses[step]) < tolerance * losses[step]);
  CHECK(std::fabs(training.evaluate(data).loss - losses[3]) < tolerance * losses[3]);
  std::size_t position = 0;
  for (auto& p : training.parameters())
    for (const T found : p.template values<T>()) {
      CAPTURE(p.path);
      REQUIRE(position < after.size());
      const double want = after[position++];
      CHECK(std::fabs(static_cast<double>(found) - want) < tolerance * (1 + std::fabs(want)));
    }
  CHECK(position == after.size());
}

}  // namespace laws
