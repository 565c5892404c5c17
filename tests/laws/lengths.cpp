// compiled: alone
// sanitizers: address, thread
// optimize: yes

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include <gpipe/checkpoint.hpp>
#include <gpipe/core/numbers/random.hpp>
#include <gpipe/lengths.hpp>
#include <gpipe/make_plan.hpp>
#include <gpipe/model/encoder_decoder.hpp>
#include <gpipe/model/gpt2.hpp>
#include <gpipe/predict.hpp>
#include <gpipe/train.hpp>

#include "support/every_allocation.hpp"
#include "support/nets.hpp"
#include "support/temporary_folder.hpp"

// A training of several lengths: each step has the bits of a training of its batch's length alone, and the results of
// padding all to the longest, up to the rounding of sums over rows.

using namespace laws;

namespace {

constexpr int longest = 16, words = 20, rows_of_table = longest;
constexpr std::array all_lengths{4, 8, longest};

/// A language model with learned positions, of which shorter sequences use the first.
template <int Tokens>
using text = gpt2<2, 16, 2, Tokens, words, double, rows_of_table>;

/// A translator with dropout: its positions are waves, in a buffer that depends on the length.
template <int Tokens>
using translation = encoder_decoder<1, 32, 2,
                                    encoder_decoder_options{.source_tokens = Tokens,
                                                            .vocabulary = words,
                                                            .width = 16,
                                                            .head_width = 8,
                                                            .dropout = 10,
                                                            .smoothing = 0.1},
                                    double>;

std::uint32_t number(std::uint32_t i, std::uint32_t below) { return draw({}, 7, i).word[0] % below; }

/// Sequences of at most `length` tokens, in rows of `width`. What is behind a sequence has the weight 0.
struct sequences {
  int samples, width;
  std::vector<std::int32_t> inputs, targets, labels, lengths;
  std::vector<double> weights;

  sequences(int count, int length, int in_rows_of, std::uint32_t seed)
      : samples(count), width(in_rows_of) {
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
      if (network_of<Net>.fields[f].name == std::string("lengths")) data.with("lengths", lengths).with("targets", targets);
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

template <template <int> class Net, class Optimizer = adamw>
std::vector<std::uint64_t> bits_of(const plan_options& plan, const training_options& how = {}) {
  trainer<of_lengths<Net>, Optimizer> training(plan, Optimizer{.learning_rate = 1e-2}, how);
  std::vector<std::uint64_t> bits;
  for (int i = 0; i < 7; ++i) {
    bits.push_back(std::bit_cast<std::uint64_t>(step<decltype(training), Net<longest>>(training, i).loss));
    bits.push_back(state_of(training));
  }
  return bits;
}

template <template <int> class Net>
void steps_as_its_length_alone() {
  const plan_options plan{.stages = 2, .micro_batches = 2, .micro_batch_size = 3};
  plan_options alone = plan;
  alone.micro_batch_size = 12;
  trainer<of_lengths<Net>, sgd> training(plan, sgd{.learning_rate = 0.1}, {.max_grad_norm = 0.5});
  trainer<Net<4>, sgd> of_4(alone, sgd{.learning_rate = 0.1}, {.max_grad_norm = 0.5});
  trainer<Net<8>, sgd> of_8(alone, sgd{.learning_rate = 0.1}, {.max_grad_norm = 0.5});
  trainer<Net<16>, sgd> of_16(alone, sgd{.learning_rate = 0.1}, {.max_grad_norm = 0.5});
  std::vector<std::byte> values;
  CHECK(training.parameter_hash() == of_4.parameter_hash());
  CHECK(training.parameter_hash() == of_16.parameter_hash());
  for (int i = 0; i < 7; ++i) {
    const auto [length, count] = steps[i];
    const sequences data(count, length, length, static_cast<std::uint32_t>(i));
    const step_result found = training.step(data.of<Net<longest>>());
    const auto matches = [&]<int Tokens>(auto& other) {
      // Random numbers depend on the step: the other trainings take as many.
      const step_result expected = other.step(data.of<Net<Tokens>>());
      CHECK(found.loss == expected.loss);
      CHECK(found.norm == expected.norm);
      CHECK(training.parameter_hash() == other.parameter_hash());
    };
    const auto follow = [&](auto& other) {
      if (other.steps() < training.steps()) {
        // A step of any data, for its count; its values are those of the training then.
        const int tokens = static_cast<int>(other.net().values[0].part.size);
        const sequences any(2, tokens, tokens, 99);
        other.step(any.of<Net<longest>>());
      }
      training.keep_values(values);
      other.restore_values(values);
    };
    if (length == 4) matches.template operator()<4>(of_4);
    if (length == 8) matches.template operator()<8>(of_8);
    if (length == 16) matches.template operator()<16>(of_16);
    follow(of_4), follow(of_8), follow(of_16);
  }
}

struct difference {
  double parameters = 0, loss = 0, predictions = 0;
};

/// The largest differences from a training that pads all sequences to the longest length.
template <template <int> class Net>
difference from_padding(int micro_batches) {
  const plan_options plan{.micro_batches = micro_batches, .micro_batch_size = 6};
  trainer<of_lengths<Net>, adamw> training(plan, adamw{.learning_rate = 1e-2});
  trainer<Net<longest>, adamw> padded(plan, adamw{.learning_rate = 1e-2});
  difference found;
  const auto raise = [](double& to, double a, double b) { to = std::max(to, std::fabs(a - b)); };
  for (int i = 0; i < 7; ++i) {
    const auto [length, count] = steps[i];
    const auto seed = static_cast<std::uint32_t>(i);
    const sequences data(count, length, length, seed), all(count, length, longest, seed);
    const auto ours = training.predict(data.of<Net<longest>>());
    const auto theirs = padded.predict(all.of<Net<longest>>());
    if (i == 0)
      for (int s = 0; s < count; ++s)
        for (int t = 0; t < data.lengths[static_cast<std::size_t>(s)] * words; ++t)
          raise(found.predictions, ours.template of<double>(s)[static_cast<std::size_t>(t)],
                theirs.template of<double>(s)[static_cast<std::size_t>(t)]);
    raise(found.loss, training.step(data.of<Net<longest>>()).loss, padded.step(all.of<Net<longest>>()).loss);
  }
  for (const auto& array : padded.parameters()) {
    const auto a = training.template parameter<double>(array.path), b = array.template values<double>();
    for (std::size_t i = 0; i < a.size(); ++i) raise(found.parameters, a[i], b[i]);
  }
  return found;
}

}  // namespace

TEST_CASE("a step has the bits of a training of its batch's length alone") {
  steps_as_its_length_alone<text>();
  steps_as_its_length_alone<translation>();
}

TEST_CASE("stages, schedules, recompute and replicas do not change a bit of a training of several lengths") {
  const auto all_equal = []<template <int> class Net>() {
  };
  static_cast<void>(all_equal);
  const auto expected = bits_of<text>({.micro_batches = 2, .micro_batch_size = 3});
  const auto translated = bits_of<translation>({.micro_batches = 2, .micro_batch_size = 3});
  for (const plan_options& plan : {plan_options{.stages = 3, .micro_batches = 2, .micro_batch_size = 3},
                                   {.stages = 2,
                                    .micro_batches = 2,
                                    .micro_batch_size = 4,
                                    .recompute = recompute_mode::always,
                                    .schedule = schedule_kind::one_f_one_b},
                                   {.stages = 4,
                                    .micro_batches = 2,
                                    .micro_batch_size = 3,
                                    .recompute = recompute_mode::except_last,
                                    .schedule = schedule_kind::interleaved,
                                    .workers = 2,
                                    .share_packed_weights = true},
                                   {.stages = 2, .micro_batches = 2, .micro_batch_size = 3, .schedule = schedule_kind::zb_h1}}) {
    CAPTURE(plan.stages);
    CHECK(bits_of<text>(plan) == expected);
    CHECK(bits_of<translation>(plan) == translated);
  }
}

TEST_CASE("the results are those of padding to the longest length") {
  for (const int M : {1, 2}) {
    const difference of_text = from_padding<text>(M), of_translation = from_padding<translation>(M);
    MESSAGE(of_text.predictions << " " << of_text.loss << " " << of_text.parameters);
    MESSAGE(of_translation.predictions << " " << of_translation.loss << " " << of_translation.parameters);
  }
}
