#pragma once

#include <cstdint>

#include <gpipe/core/config.hpp>

namespace gpipe {

// change: the random number generator; the user's choice
// assumes: int positions
/// The arguments of a random number, in addition to the sample and the element. Thread, stage and the order of calls
/// are not among them, so that any cut of the model draws the same numbers.
struct random_key {
  std::uint64_t seed = 0;
  std::uint64_t step = 0;          ///< `initializing` while parameters get their initial values
  std::uint32_t layer_index = 0;   ///< the layer's position in the model
  std::uint32_t first_sample = 0;  ///< position in the mini-batch of the micro-batch's first sample

  /// The step's value for initial values: parameters are drawn outside any step.
  static constexpr std::uint64_t initializing = ~std::uint64_t{0};
};

/// Four words drawn together.
struct random_words {
  std::uint32_t word[4];
};

namespace detail {

// change: the random number generator
/// Philox-4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", 2011).
GPIPE_HOST_DEVICE constexpr random_words philox(random_words counter, std::uint32_t key0, std::uint32_t key1) {
  auto [a, b, c, d] = counter.word;
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t left = std::uint64_t{0xD2511F53} * a, right = std::uint64_t{0xCD9E8D57} * c;
    a = static_cast<std::uint32_t>(right >> 32) ^ b ^ key0;
    c = static_cast<std::uint32_t>(left >> 32) ^ d ^ key1;
    b = static_cast<std::uint32_t>(right);
    d = static_cast<std::uint32_t>(left);
    key0 += 0x9E3779B9;
    key1 += 0xBB67AE85;
  }
  return {{a, b, c, d}};
}

}  // namespace detail

// change: the random number generator
/// The words of elements 4 * `quad` ... 4 * `quad` + 3 of a sample (0 is the micro-batch's first).
GPIPE_HOST_DEVICE constexpr random_words draw(const random_key& key, std::uint32_t sample, std::uint32_t quad) {
  // The step's upper half goes into the key: two seeds can give the same numbers only after 2^32 steps.
  return detail::philox({{quad, key.first_sample + sample, static_cast<std::uint32_t>(key.step), key.layer_index}},
                        static_cast<std::uint32_t>(key.seed),
                        static_cast<std::uint32_t>(key.seed >> 32) ^ static_cast<std::uint32_t>(key.step >> 32));
}

/// A word as a number in [0, 1): its upper 24 bits.
GPIPE_HOST_DEVICE constexpr float uniform(std::uint32_t word) {
  return static_cast<float>(static_cast<std::int32_t>(word >> 8)) * 0x1p-24F;
}

}  // namespace gpipe
