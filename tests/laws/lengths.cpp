// compiled: alone
// sanitizers: address, thread
// optimize: yes

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <gpipe/checkpoint.hpp>
#include <gpipe/core/numbers/random.hpp>
#include <gpipe/job.hpp>
#include <gpipe/layer.hpp>
#include <gpipe/lengths.hpp>
#include <gpipe/make_plan.hpp>
#include <gpipe/model/encoder_decoder.hpp>
#include <gpipe/model/gpt2.hpp>
#include <gpipe/plan.hpp>
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
using translation = encoder_decoder<
    1, 32, 2,
    encoder_decoder_options{
        .source_tokens = Tokens, .vocabulary = words, .width = 16, .head_width = 8, .dropout = 10, .smoothing = 0.1},
    double>;

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

std::uint32_t number(std::uint32_t i, std::uint32_t below) { return draw({}, 7, i).word[0] % below; }

/// Sequences of at most `length` tokens, in rows of `width`. What is behind a sequence has the weight 0.
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
  CHECK(bits_of<text>({.stages = 3, .micro_batches = 1, .micro_batch_size = 3, .replicas = 2}) == expected);
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

TEST_CASE("a step that fails in one length changes nothing, and the next of any length works") {
  for (const int stages : {1, 3}) {
    bool fails = false;
    const training_options how{.before = [&](const instruction& i) {
      if (fails && i.kind == action_kind::backward) throw error("planted", "");
    }};
    trainer<of_lengths<translation>, adamw> training({.stages = stages, .micro_batches = 2, .micro_batch_size = 3},
                                                     adamw{.learning_rate = 1e-2}, how);
    trainer<of_lengths<translation>, adamw> whole({.stages = stages, .micro_batches = 2, .micro_batch_size = 3},
                                                  adamw{.learning_rate = 1e-2});
    for (int i = 0; i < 7; ++i) {
      const auto before = state_of(training);
      fails = true;
      CHECK_THROWS_AS((step<decltype(training), translation<longest>>(training, i + 1)), error);
      CHECK(state_of(training) == before);
      fails = false;
      CHECK(step<decltype(training), translation<longest>>(training, i).loss ==
            step<decltype(whole), translation<longest>>(whole, i).loss);
    }
    CHECK(state_of(training) == state_of(whole));
  }
}

TEST_CASE("all lengths run in one arena, as large as the largest plan's, which is touched up to its end") {
  for (const int S : {1, 3}) {
    const plan_options plan{.stages = S, .micro_batches = 2, .micro_batch_size = 3};
    std::vector<std::vector<bool>> lines[2];
    for (const int run : {0, 1}) {
      const std::byte fill{static_cast<unsigned char>(run == 0 ? 0xa5 : 0x5a)};
      trainer<of_lengths<translation>, adamw> training(plan, adamw{}, {.arena_fill = fill});
      // Full micro-batches of each length: 3 x 16 tokens.
      for (const auto& [length, count] : {std::pair(16, 6), {8, 12}, {4, 24}}) {
        const sequences data(count, length, length, 1);
        training.step(data.of<translation<longest>>());
        training.evaluate(data.of<translation<longest>>());
      }
      for (int s = 0; s < S; ++s) {
        std::int64_t largest = make_plan(network_of<translation<longest>>, training.plan().options,
                                         {training.plan().first.begin() + 1, training.plan().first.end() - 1})
                                   .memory(s)
                                   .total();
        for (const auto& it : training.executor().shorter()) {
          largest = std::max(largest, it.plan.memory(s).total());
          CHECK(it.plan.first == training.plan().first);
        }
        const auto& arena = training.executor().stage(s).arena();
        CHECK(training.plan().memory(s).total() == largest);
        CHECK(arena.size() == static_cast<std::size_t>(largest));
        CHECK(training.report()[static_cast<std::size_t>(s)].bytes == arena.size());
        lines[run].emplace_back();
        constexpr std::size_t line = gpipe::detail::alignment;
        for (std::size_t at = 0; at <= arena.size(); at += line)
          lines[run].back().push_back(
              !std::all_of(arena.data() + at, arena.data() + at + line, [=](std::byte b) { return b == fill; }));
      }
    }
    for (std::size_t s = 0; s < lines[0].size(); ++s) {
      const auto &a = lines[0][s], &b = lines[1][s];
      CHECK((a[a.size() - 2] || b[b.size() - 2]));  // the highest predicted line
      CHECK(!(a.back() || b.back()));               // the first line behind it
    }
  }
}

#ifdef LAWS_COUNTED
TEST_CASE("a step of another length than the last one allocates nothing") {
  trainer<of_lengths<translation>, adamw> training({.stages = 2, .micro_batches = 2, .micro_batch_size = 3}, adamw{});
  for (int i = 0; i < 7; ++i) {
    const auto [length, count] = steps[i];
    const sequences data(count, length, length, static_cast<std::uint32_t>(i));
    const batch b = data.of<translation<longest>>();
    const long before = allocations;
    training.step(b);
    const long after = allocations;
    CHECK(after == before);
  }
}
#endif

TEST_CASE("one length is the model itself") {
  const plan_options plan{.stages = 2, .micro_batches = 2, .micro_batch_size = 6};
  trainer<lengths<text, 8>, adamw> one(plan, adamw{});
  trainer<text<8>, adamw> plain(plan, adamw{});
  for (int i = 2; i < 4; ++i)
    CHECK((step<decltype(one), text<8>>(one, i).loss) == (step<decltype(plain), text<8>>(plain, i).loss));
  CHECK(state_of(one) == state_of(plain));
}

TEST_CASE("a predictor of several lengths has the predictions of its training") {
  const plan_options plan{.stages = 2, .micro_batches = 2, .micro_batch_size = 3};
  trainer<of_lengths<translation>, adamw> training(plan, adamw{});
  predictor<of_lengths<translation>> model(plan);
  std::vector<std::byte> values;
  step<decltype(training), translation<longest>>(training, 0);
  training.keep_values(values);
  model.restore_values(values);
  for (const int length : all_lengths) {
    const sequences data(3, length, length, 4);
    const auto a = training.predict(data.of<translation<longest>>()).all<double>();
    CHECK(a == model.predict(data.of<translation<longest>>()).all<double>());
    CHECK(a.size() == static_cast<std::size_t>(3 * length * words));
  }
}

TEST_CASE("a batch of no length, and predictions of two, are errors that leave all as it was") {
  trainer<of_lengths<text>, adamw> training({.micro_batch_size = 3}, adamw{});
  const auto message = [](auto&& call) -> std::string {
    try {
      call();
    } catch (const error& e) {
      return e.what();
    }
    return "";
  };
  const auto state = state_of(training);
  const sequences odd(2, 5, 5, 1);
  CHECK(
      message([&] { training.step(odd.of<text<longest>>()); }) ==
      "field \"inputs\" of the batch has 10 elements of 2 samples, 5 each: no plan has rows of the batch's sizes; pad "
      "the rows of all fields to one length of the plans: \"inputs\" to 4, 8 or 16");
  sequences mixed(2, 8, 8, 1);
  mixed.labels.resize(8);
  CHECK(message([&] { training.step(mixed.of<text<longest>>()); }).find("no plan has rows") != std::string::npos);
  const sequences many(13, 4, 4, 1);
  CHECK(message([&] { training.step(many.of<text<longest>>()); }).find("the plan holds 12") != std::string::npos);
  CHECK(state_of(training) == state);
  const sequences good(2, 8, 8, 1);
  training.step(good.of<text<longest>>());

  dataset rows;
  std::vector<std::int32_t> inputs(8 * 16, 1);
  rows.with("inputs", 16, inputs);
  const std::vector<int> positions{3, 4, 7, 8, 8, 9, 12, 16};
  const batches_by_length sorted(rows, positions, {.lengths = {4, 8, 16}, .tokens = 32});
  CHECK(message([&] { training.predict(sorted); }).find("rows of another length") != std::string::npos);
}

TEST_CASE("fit goes over batches of all lengths, and goes on from any of them with the same bits") {
  const int count = 90;
  dataset data;
  std::vector<std::int32_t> inputs, labels;
  std::vector<double> weights;
  std::vector<int> positions;
  for (int s = 0; s < count; ++s) {
    const int own = 1 + static_cast<int>(number(static_cast<std::uint32_t>(s), longest));
    positions.push_back(own);
    for (int t = 0; t < longest; ++t) {
      inputs.push_back(static_cast<std::int32_t>(t < own ? number(static_cast<std::uint32_t>(100 * s + t), words) : 0));
      labels.push_back(static_cast<std::int32_t>(t < own ? (inputs.back() + 1) % words : 0));
      weights.push_back(t < own ? 1 : 0);
    }
  }
  data.with("inputs", longest, inputs).with("labels", longest, labels).with("weights", longest, weights);
  const batches_by_length sorted(data, positions, {.lengths = {4, 8, 16}, .tokens = 48});
  const plan_options plan{.stages = 2, .micro_batches = 2, .micro_batch_size = 2};
  trainer<of_lengths<text>, adamw> whole(plan, adamw{.learning_rate = 1e-2});
  std::vector<std::uint64_t> hashes;
  std::vector<data_position> places;
  const double before = whole.evaluate(sorted).loss;
  const fit_result end = fit(whole, sorted, {.epochs = 2, .seed = 5}, [&](const fit_progress& now) {
    hashes.push_back(whole.parameter_hash());
    places.push_back(now.next);
  });
  CHECK(end.epochs == 2);
  CHECK(hashes.size() == static_cast<std::size_t>(2 * sorted.own().count));
  const step_result after = whole.evaluate(sorted);
  CHECK(after.loss < before);
  CHECK(after.weight == std::accumulate(positions.begin(), positions.end(), 0));
  CHECK(after.samples == count);

  // Padded evaluation of the same sequences.
  trainer<text<longest>, adamw> padded({.micro_batch_size = 10}, adamw{});
  std::vector<std::byte> values;
  whole.keep_values(values);
  padded.restore_values(values);
  CHECK(padded.evaluate(data).loss == doctest::Approx(after.loss).epsilon(1e-13));

  for (const std::size_t stop :
       {std::size_t{0}, std::size_t{4}, hashes.size() / 2 - 1, hashes.size() / 2, hashes.size() - 2}) {
    trainer<of_lengths<text>, adamw> part(plan, adamw{.learning_rate = 1e-2});
    std::size_t i = 0;
    fit(part, sorted, {.epochs = 2, .seed = 5},
        [&](const fit_progress&) { return i++ == stop ? loop_control::stop : loop_control::go; });
    fit(part, sorted, {.epochs = 2, .seed = 5, .first = places[stop]},
        [&](const fit_progress&) { CHECK(part.parameter_hash() == hashes[i++]); });
    CHECK(i == hashes.size());
  }
  const batches_by_length others(data, positions, {.lengths = {4, 8, 16}, .tokens = 32});
  CHECK_THROWS_AS(fit(whole, others, {.epochs = 2, .seed = 5, .first = places[3]}), error);
}

namespace {

/// A job of one process, of which no call is made.
struct job_of_one final : process_group {
  int rank() const noexcept override { return 0; }
  int ranks() const noexcept override { return 1; }
  void expect(std::chrono::nanoseconds) override {}
  void agree(collective_kind, std::span<const agreed_value>) override {}
  std::unique_ptr<sending_end> sender(const channel_layout&) override { return nullptr; }
  std::unique_ptr<receiving_end> receiver(const channel_layout&) override { return nullptr; }
  std::unique_ptr<all_gather> make_all_gather(const std::vector<std::size_t>&) override { return nullptr; }
  void enter(collective_kind, std::span<const agreed_value>) override {}
  void begin(wait_context) override {}
  void poll() override {}
  void broadcast(void*, std::size_t, int, std::uint64_t) override {}
  void fail(const error&) noexcept override {}
  error recover() override { return error("", ""); }
  bool leave(const error&) noexcept override { return false; }
};

}  // namespace

TEST_CASE("a job of processes trains one length") {
  job_of_one job;
  CHECK_THROWS_WITH_AS((trainer<of_lengths<text>, adamw>({.micro_batch_size = 3}, adamw{}, {.job = &job})),
                       "the training has a job, and its model 3 lengths; choose .job = nullptr, or the model of one "
                       "length",
                       error);
}
