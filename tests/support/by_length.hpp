#pragma once

// Models of several lengths, and their data.

#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include <gpipe/core/numbers/random.hpp>
#include <gpipe/lengths.hpp>
#include <gpipe/model/encoder_decoder.hpp>
#include <gpipe/model/gpt2.hpp>
#include <gpipe/train/trainer.hpp>

namespace laws::by_length {

using namespace gpipe;

constexpr int longest = 16, words = 20, rows_of_table = longest;
constexpr std::array all_lengths{4, 8, longest};

/// A language model with learned positions, of which shorter sequences use the first.
template <int Tokens>
using text = gpt2<2, 16, 2, Tokens, words, double, rows_of_table>;

/// A translator with dropout: its positions are waves, in a buffer that depends on the length.
template <int Tokens>
using translation = encoder_decoder<
    1, 32, 2,
    encoder_decoder_options{
        .source_tokens = Tokens, .vocabulary = words, .width = 16, .head_width = 8, .dropout = 10, .smoothing = 0.1},
    double>;

inline std::uint32_t number(std::uint32_t i, std::uint32_t below) { return draw({}, 7, i).word[0] % below; }

/// Sequences of at most `length` tokens, in rows of `width`. Positions behind a sequence have the weight 0.
struct sequences {
  int samples, width;
  std::vector<std::int32_t> inputs, targets, labels, lengths;
  std::vector<double> weights;

  sequences(int count, int length, int in_rows_of, std::uint32_t seed) : samples(count), width(in_rows_of) {
    for (int s = 0; s < count; ++s) {
      const auto of = seed * 1000 + static_cast<std::uint32_t>(s);
      const int own = length - static_cast<int>(number(of, 3));
      lengths.push_back(own);
      for (int t = 0; t < width; ++t) {
        const bool counts = t < own;
        const auto at = of * 100 + static_cast<std::uint32_t>(t);
        inputs.push_back(counts ? static_cast<std::int32_t>(number(at, words)) : 0);
        targets.push_back(counts ? static_cast<std::int32_t>(number(at + 7, words)) : 0);
        labels.push_back(counts ? static_cast<std::int32_t>(number(at + 13, words)) : 0);
        weights.push_back(counts ? 1 + number(at, 2) : 0);
      }
    }
  }
  template <class Net>
  batch of() const {
    batch data(samples);
    data.with("inputs", inputs).with("labels", labels).with("weights", weights);
    for (int f = 0; f < network_of<Net>.field_count; ++f)
      if (network_of<Net>.fields[f].name == std::string("lengths"))
        data.with("lengths", lengths).with("targets", targets);
    return data;
  }
};

/// The length and the number of samples of a step's batch.
constexpr std::pair<int, int> steps[] = {{4, 6}, {16, 3}, {8, 4}, {8, 6}, {4, 2}, {16, 6}, {4, 6}};

template <template <int> class Net>
using of_lengths = lengths<Net, 4, 8, 16>;

template <class Trainer, class Net>
step_result step(Trainer& training, int i) {
  const auto [length, count] = steps[static_cast<std::size_t>(i) % std::size(steps)];
  return training.step(sequences(count, length, length, static_cast<std::uint32_t>(i)).of<Net>());
}

}  // namespace laws::by_length
