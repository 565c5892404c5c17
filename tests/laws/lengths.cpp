// compiled: alone
// optimize: yes

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <gpipe/checkpoint.hpp>
#include <gpipe/layer.hpp>
#include <gpipe/lengths.hpp>
#include <gpipe/make_plan.hpp>
#include <gpipe/model/encoder_decoder.hpp>
#include <gpipe/model/gpt2.hpp>
#include <gpipe/plan.hpp>
#include <gpipe/train.hpp>

#include "support/by_length.hpp"
#include "support/nets.hpp"
#include "support/temporary_folder.hpp"

// A training of several lengths: each step has the bits of a training of its batch's length alone, and the results of
// padding all to the longest, up to the rounding of sums over rows.

using namespace laws;
using namespace laws::by_length;

namespace {

/// Multiplies each token by its share of the length, from a table that differs between lengths in every number.
struct shares_of_length {
  template <class In>
  struct on;

  template <class T, int Tokens, int Width>
  struct on<tensor<T, Tokens, Width>> {
    using output = tensor<T, Tokens, Width>;
    static constexpr buffer derived[] = {{"shares", Tokens, dtype_of<T>}};
    static constexpr work cost{.forward = output::size, .backward_input = output::size};
    struct write {
      T* into;
      GPIPE_HOST_DEVICE void operator()(std::ptrdiff_t t) const { into[t] = T(t + 1) / Tokens; }
    };
    struct scale {
      const T *x, *table;
      T* y;
      GPIPE_HOST_DEVICE void operator()(std::ptrdiff_t i) const { y[i] = x[i] * table[i / Width % Tokens]; }
    };
    template <class C, class A>
    static void refresh(const C& c, const A& a) noexcept {
      c.each(Tokens, write{a.template derived<0>()});
    }
    template <class C, class A>
    static void forward(const C& c, const A& a) {
      c.each(std::ptrdiff_t{a.samples()} * Tokens * Width, scale{a.in(), a.template derived<0>(), a.out()});
    }
    template <class C, class A>
    static void backward_input(const C& c, const A& a) {
      c.each(std::ptrdiff_t{a.samples()} * Tokens * Width,
             scale{a.out_gradient(), a.template derived<0>(), a.in_gradient()});
    }
  };
};
template <int Tokens>
struct scaled : model<input<std::int32_t, Tokens>, embedding<words, 8, double>, shares_of_length, linear<words>,
                      softmax_cross_entropy> {};

/// The slices of its head have rows of the table of words.
template <int Tokens>
using sliced_translation = encoder_decoder<1, 32, 2,
                                           encoder_decoder_options{.source_tokens = Tokens,
                                                                   .vocabulary = words,
                                                                   .width = 16,
                                                                   .head_width = 8,
                                                                   .tied_head = true,
                                                                   .head_slices = 3},
                                           double>;

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
    training.keep_values(values);
    training.restore_values(values);  // which derives again all that is derived
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
  steps_as_its_length_alone<sliced_translation>();
  steps_as_its_length_alone<scaled>();
}

TEST_CASE("stages, schedules, recompute and replicas do not change a bit of a training of several lengths") {
  const auto expected = bits_of<text>({.micro_batches = 2, .micro_batch_size = 3});
  const auto translated = bits_of<translation>({.micro_batches = 2, .micro_batch_size = 3});
  for (const plan_options& plan :
       {plan_options{.stages = 3, .micro_batches = 2, .micro_batch_size = 3},
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

TEST_CASE("replicas, and a plan that the compiler has made, have the same bits") {
  const auto expected = bits_of<text>({.micro_batches = 1, .micro_batch_size = 3, .replicas = 2});
  for (const shard shares : {shard::none, shard::optimizer_state, shard::gradients})
    CHECK(bits_of<text>({.stages = 3, .micro_batches = 1, .micro_batch_size = 3, .replicas = 2, .shard = shares}) ==
          expected);
  using made = plan<text<longest>, stages<2>, micro_batches<2>, micro_batch_size<3>, optimizer<adamw>>;
  trainer<of_lengths<text>, adamw> compiled(made{}, adamw{.learning_rate = 1e-2});
  const auto at_run_time = bits_of<text>({.stages = 2, .micro_batches = 2, .micro_batch_size = 3});
  for (int i = 0; i < 7; ++i) step<decltype(compiled), text<longest>>(compiled, i);
  CHECK(state_of(compiled) == at_run_time.back());
}

// Logits are those of the padded rows, bit for bit. So are all results while no sum has more than 64 rows: such a sum
// adds them in their order, and the rows of the padding add zeros. Longer sums are made in blocks, so that the padding
// changes their rounding.
TEST_CASE("the results are those of padding to the longest length") {
  for (const difference& found : {from_padding<text>(2), from_padding<translation>(2)}) {  // of 48 rows
    CHECK(found.predictions == 0);
    CHECK(found.loss == 0);
    CHECK(found.parameters == 0);
  }
  for (const difference& found : {from_padding<text>(1), from_padding<translation>(1)}) {  // of 96 rows
    CHECK(found.predictions == 0);
    CHECK(found.loss < 1e-14);
    CHECK(found.parameters < 1e-10);  // Adam divides by small moments
  }
}

TEST_CASE("the gradients of several lengths add up in one step, which has the weight of all") {
  const plan_options plan{.stages = 2, .micro_batches = 2, .micro_batch_size = 3};
  trainer<of_lengths<text>, sgd> training(plan, sgd{.learning_rate = 0.1});
  trainer<text<longest>, sgd> padded({.stages = 1, .micro_batches = 2, .micro_batch_size = 3},
                                     sgd{.learning_rate = 0.1});
  step_result ours, theirs;
  for (int i = 0; i < 4; ++i) {
    const auto [length, count] = steps[i];
    const auto seed = static_cast<std::uint32_t>(i);
    const sequences data(count, length, length, seed), all(count, length, longest, seed);
    const bool last = i == 3;
    ours = last ? training.step(data.of<text<longest>>()) : training.accumulate(data.of<text<longest>>());
    theirs = last ? padded.step(all.of<text<longest>>()) : padded.accumulate(all.of<text<longest>>());
    CHECK(ours.weight == theirs.weight);
    CHECK(ours.samples == theirs.samples);
    CHECK(ours.loss == doctest::Approx(theirs.loss).epsilon(1e-13));
  }
  CHECK(ours.norm == doctest::Approx(theirs.norm).epsilon(1e-12));
  const auto a = training.parameter<double>("wte.weight"), b = padded.parameter<double>("wte.weight");
  for (std::size_t i = 0; i < a.size(); ++i) CHECK(a[i] == doctest::Approx(b[i]).epsilon(1e-12));
}

TEST_CASE("a checkpoint is that of one length, and goes on with other lengths, stages and recompute") {
  const temporary_folder folder;
  const std::string path = folder.path();
  const plan_options plan{.stages = 2, .micro_batches = 2, .micro_batch_size = 3};
  const plan_options other{.stages = 3, .micro_batches = 2, .micro_batch_size = 4, .recompute = recompute_mode::always};
  trainer<of_lengths<text>, adamw> whole(plan, adamw{.learning_rate = 1e-2});
  for (int i = 0; i < 3; ++i) step<decltype(whole), text<longest>>(whole, i);
  whole.save(path);
  trainer<of_lengths<text>, adamw> second(other, adamw{.learning_rate = 1e-2});
  trainer<lengths<text, 8, longest>, adamw> fewer(plan, adamw{.learning_rate = 1e-2});
  trainer<text<longest>, adamw> one(plan, adamw{.learning_rate = 1e-2});
  step<decltype(second), text<longest>>(second, 2);  // a shorter length runs before the load
  CHECK(second.load(path).steps == 3);
  CHECK(fewer.load(path).steps == 3);
  CHECK(one.load(path).steps == 3);
  CHECK(state_of(second) == state_of(whole));
  CHECK(state_of(fewer) == state_of(whole));
  CHECK(state_of(one) == state_of(whole));
  step<decltype(whole), text<longest>>(whole, 3);
  step<decltype(second), text<longest>>(second, 3);
  step<decltype(fewer), text<longest>>(fewer, 3);  // of length 8
  CHECK(state_of(second) == state_of(whole));
  CHECK(state_of(fewer) == state_of(whole));
  one.save(path);
  CHECK(whole.load(path).steps == 3);
  CHECK(state_of(one) == state_of(whole));

  // Without learned positions the longest length does not count.
  const temporary_folder file;
  trainer<of_lengths<translation>, adamw> translating(plan, adamw{.learning_rate = 1e-2});
  trainer<lengths<translation, 4, 8>, adamw> shorter(other, adamw{.learning_rate = 1e-2});
  step<decltype(translating), translation<longest>>(translating, 0);
  translating.save(file.path());
  CHECK(shorter.load(file.path()).steps == 1);
  step<decltype(translating), translation<longest>>(translating, 2);
  step<decltype(shorter), translation<longest>>(shorter, 2);
  CHECK(state_of(shorter) == state_of(translating));
}

TEST_CASE("averages, what is frozen and what is watched hold for all lengths") {
  const plan_options plan{.stages = 3, .micro_batches = 2, .micro_batch_size = 3};
  trainer<of_lengths<translation>, adamw> training(plan, adamw{.learning_rate = 1e-2}, {.average_weights = 0.5});
  const auto take = [&](auto& with) { step<std::remove_reference_t<decltype(with)>, translation<longest>>(with, 0); };
  take(training);
  const sequences eight(4, 8, 8, 3), four(3, 4, 4, 5);
  const auto of = [](const sequences& it) { return it.of<translation<longest>>(); };
  // The same values in a training of one length.
  std::vector<std::byte> values;
  training.keep_values(values);
  trainer<translation<8>, adamw> one({.micro_batches = 2, .micro_batch_size = 6}, adamw{});
  one.restore_values(values);
  CHECK(training.evaluate(of(eight)).loss == one.evaluate(of(eight)).loss);
  const double averaged = training.evaluate(of(eight), weights::averaged).loss;
  CHECK(averaged != training.evaluate(of(eight)).loss);
  training.evaluate(of(four));
  CHECK(training.evaluate(of(eight), weights::averaged).loss == averaged);
  CHECK(training.evaluate(of(eight)).loss == one.evaluate(of(eight)).loss);

  training.watch(1);
  one.watch(1);
  CHECK(training.predict(of(eight)).all<double>()[5] == one.predict(of(eight)).all<double>()[5]);
  REQUIRE(training.activation(1).samples() == 4);
  for (std::size_t i = 0; i < one.activation(1).all<double>().size(); ++i)
    CHECK(training.activation(1).all<double>()[i] == one.activation(1).all<double>()[i]);
  training.evaluate(of(four));
  CHECK(training.activation(1).all<double>().size() == std::size_t{3 * 4 * 16});

  training.freeze(0);
  const auto before = training.parameter<double>("words.weight");
  for (int i = 1; i < 4; ++i) step<decltype(training), translation<longest>>(training, i);
  CHECK(training.parameter<double>("words.weight") == before);
  training.unfreeze(0);
  take(training);
  CHECK(training.parameter<double>("words.weight") != before);
}
