#include <gpipe/train/trainer.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <limits>
#include <stdexcept>
#include <thread>

#include <gpipe/layer/normalization/batch_norm.hpp>
#include <gpipe/layer/linear/linear.hpp>
#include <gpipe/layer/loss/softmax_cross_entropy.hpp>
#include <gpipe/plan/plan.hpp>
#include <gpipe/plan/summary.hpp>
#include <gpipe/record/breakdown.hpp>

#include "support/instances.hpp"
#include "support/layers.hpp"

// Same bits for every cut, failures, memory and weights: tests/laws.

using namespace gpipe;
using namespace laws;

namespace {

struct net : model<input<float, 4>, halve, cross, join, passing_loss> {};
using training = trainer<net, adam>;

/// Passes on what it gets, in so many half milliseconds forward and twice as many backward, and leaves the core free.
template <int Halves>
struct sleeper {
  template <class In>
  struct on;
  template <class T, int N>
  struct on<tensor<T, N>> {
    using output = tensor<T, N>;
    static constexpr work cost{.forward = 60'000'000, .backward_input = 120'000'000};
    static constexpr auto half = std::chrono::microseconds(500);
    static void forward(const auto&, const auto& a) {
      std::this_thread::sleep_for(Halves * half);
      loop(a.samples() * N, [&](int i) { a.out()[i] = a.in()[i]; });
    }
    static void backward_input(const auto&, const auto& a) {
      std::this_thread::sleep_for(2 * Halves * half);
      loop(a.samples() * N, [&](int i) { a.in_gradient()[i] = a.out_gradient()[i]; });
    }
  };
};
/// A step of the rate against each gradient's sign.
struct sign_descent {
  double learning_rate = 1e-3;
  static constexpr int moments = 0;

  template <class T>
  struct rule_for {
    update_operands<T> of;
    T rate;
    void operator()(std::ptrdiff_t i) const {
      of.parameter[i] -= of.gradient[i] > 0 ? rate : of.gradient[i] < 0 ? -rate : T(0);
    }
  };
  template <class T>
  rule_for<T> rule(const update_operands<T>& of, const update_terms& now) const {
    return {of, static_cast<T>(now.rate)};
  }
};

/// The linear layer is there so that a gradient flows back.
struct sleepers : model<input<float, 1>, linear<4>, sleeper<10>, repeat<10, sleeper<1>>, softmax_cross_entropy> {};

const std::vector<float> x{1, 0, 2, 1, 0, 1, 1, 3, 2, 2, 0, 1, 1, 1, 0, 2, 3, 1, 1, 0};
const std::vector<std::int32_t> labels{0, 1, 2, 3, 0};
const dataset data = dataset{}.with("inputs", 4, x).with("labels", 1, labels);
const batch all = batch(5).with("inputs", x).with("labels", labels);
constexpr plan_options two{.stages = 2, .micro_batches = 2, .micro_batch_size = 3};

}  // namespace

TEST_CASE("a trainer is made from a compiled plan, or from options") {
  using plan = gpipe::plan<net, stages<2>, micro_batches<2>, micro_batch_size<3>>;
  trainer compiled{plan{}, adam{.learning_rate = 0.01}};
  trainer<net, adam> chosen{two, adam{.learning_rate = 0.01}};
  CHECK(compiled.plan().first == chosen.plan().first);
  CHECK(compiled.step(all).loss == chosen.step(all).loss);
  CHECK(compiled.parameter_hash() == chosen.parameter_hash());
  trainer with_more{plan{}, sgd{}, training_options{}};
  CHECK(with_more.plan().options.moments == 1);  // the optimizer's
}

TEST_CASE("a precision is the model's, the compiled plan's, or chosen at run time: the same bits") {
  using plan = gpipe::plan<net, stages<2>, micro_batches<2>, micro_batch_size<3>, in<precision::bf16>>;
  plan_options chosen = two;
  chosen.in = precision::bf16;
  trainer<in_both<net>, adam> both(chosen), wide(two);
  trainer<in_bf16<net>, adam> narrow(two);
  trainer compiled{plan{}, adam{}};
  training plain(two);
  CHECK(both.plan().options.in == precision::bf16);
  CHECK(narrow.plan().options.in == precision::bf16);
  CHECK(wide.plan().options.in == precision::float32);
  CHECK(both.parameter_hash() == plain.parameter_hash());  // first values are not rounded
  const double loss = both.step(all).loss, in_float = plain.step(all).loss;
  CHECK(loss == narrow.step(all).loss);
  CHECK(loss == compiled.step(all).loss);
  CHECK(wide.step(all).loss == in_float);
  CHECK(loss != in_float);
  CHECK(loss == doctest::Approx(in_float).epsilon(0.01));
  CHECK(both.parameter_hash() == narrow.parameter_hash());
  CHECK(both.parameter_hash() == compiled.parameter_hash());
  CHECK(wide.parameter_hash() == plain.parameter_hash());
  CHECK_THROWS_WITH_AS(training{chosen},
                       "the plan is to be in bf16, and the network is in float32; plan the network of in_bf16<model>, "
                       "or make the trainer one of in_both<model>",
                       error);
}

TEST_CASE("a model in bf16 takes floats, or what is rounded already, and predicts bf16") {
  trainer<in_bf16<net>, adam> floats(two), rounded(two);
  std::vector<float> inputs = x;
  for (float& value : inputs) value += 0.001F;  // so that rounding changes it
  const std::vector<bf16> narrow(inputs.begin(), inputs.end());
  const batch given = batch(5).with("inputs", inputs).with("labels", labels);
  CHECK(floats.step(given).loss == rounded.step(batch(5).with("inputs", narrow).with("labels", labels)).loss);
  CHECK(floats.parameter_hash() == rounded.parameter_hash());
  const sample_rows found = floats.predict(given);
  CHECK(found.of<bf16>(4).size() == 4);
  CHECK_THROWS_WITH_AS(found.of(4), "tensor 0 holds bf16; read it as that", error);
  const std::vector<double> doubles(x.begin(), x.end());
  CHECK_THROWS_WITH_AS(floats.step(batch(5).with("inputs", doubles).with("labels", labels)),
                       doctest::Contains("holds double, the model reads bf16"), error);
  CHECK(floats.parameter<float>(1, "weight").size() == 2);
}

TEST_CASE("a number that is not finite is found in bf16 too, and the layer named") {
  trainer<in_bf16<net>, adam> narrow(two);
  std::vector<float> inputs = x;
  inputs[13] = std::numeric_limits<float>::max();  // rounds to infinity
  CHECK_THROWS_WITH_AS(narrow.step(batch(5).with("inputs", inputs).with("labels", labels)),
                       doctest::Contains("the field \"inputs\" of the data is not finite"), error);
}

TEST_CASE("training lowers the loss, and reaches the same by the same way again") {
  std::uint64_t hashes[2];
  for (std::uint64_t& hash : hashes) {
    training t(two, adam{.learning_rate = 0.1});
    const double before = t.evaluate(data).loss;
    for (std::uint64_t epoch = 0; epoch < 10; ++epoch)
      for (const batch& b : data.shuffled(4, 1, epoch)) t.step(b);
    CHECK(t.evaluate(data).loss < before);
    CHECK(t.steps() == 20);
    hash = t.parameter_hash();
  }
  CHECK(hashes[0] == hashes[1]);
  CHECK(training(two, {}, {.seed = 1}).parameter_hash() != training(two).parameter_hash());
}

TEST_CASE("an optimizer of one's own, which keeps no array") {
  trainer<net, sign_descent> own(two, {.learning_rate = 0.125});
  for (const memory_block& block : own.plan().blocks[1]) CHECK(block.kind != memory_kind::moments);
  const std::vector<float> before = own.parameter(1, "weight");
  own.step(all);
  const std::vector<float> after = own.parameter(1, "weight"), gradient = own.gradient(1, "weight");
  for (std::size_t i = 0; i < before.size(); ++i) {
    CAPTURE(i);
    CHECK(after[i] == before[i] - (gradient[i] > 0 ? 0.125F : gradient[i] < 0 ? -0.125F : 0.0F));
  }
  CHECK(after != before);
  CHECK_THROWS_WITH_AS(own.moment(1, "weight", 0), doctest::Contains("the optimizer has no moment 0"), error);
}

TEST_CASE("the rate is the optimizer's times the schedule's") {
  training t(two, adam{.learning_rate = 0.5}, {.rate = warm_up{.steps = 2}, .clip = 1});
  CHECK(t.rate() == 0.25);
  t.step(all);
  CHECK(t.rate() == 0.5);
}

TEST_CASE("an evaluation of a dataset goes over all of it, in batches as large as the plan's") {
  training t({.stages = 2, .micro_batches = 1, .micro_batch_size = 2});
  const outcome found = t.evaluate(data);  // 2 + 2 + 1
  CHECK(found.samples == 5);
  CHECK(found.weight == 5);
  CHECK(found.loss == doctest::Approx(training(two).evaluate(all).loss));
  const dataset none;
  CHECK_THROWS_WITH_AS(t.evaluate(none), doctest::Contains("the dataset has no samples"), error);
}

TEST_CASE("parameters, gradients and moments are read by slot and name") {
  training t(two);
  const std::vector<float> values{0.25F, -0.5F};
  t.set_parameter<float>(1, "weight", values);
  CHECK(t.parameter(1, "weight") == values);
  CHECK(t.moment(1, "weight", 0) == std::vector<float>{0, 0});
  t.step(all);
  CHECK(t.parameter(1, "weight") != values);
  CHECK(t.gradient(1, "weight")[0] != 0);
  CHECK(t.moment(1, "weight", 0)[0] == doctest::Approx(0.1 * t.gradient(1, "weight")[0] / 5));
  CHECK(t.moment(1, "weight", 1)[0] > 0);
}

TEST_CASE("a layer's state is read and written by slot and name") {
  struct averaging : model<input<float, 4>, halve, cross, join, batch_norm<>, passing_loss> {};
  trainer<averaging, adam> t(two);
  const std::vector<float> none(4, 0.0F), ones(4, 1.0F), far(4, 1e4F);
  CHECK(t.state(3, "mean") == none);
  CHECK(t.state(3, "variance") == ones);
  const auto hash = t.parameter_hash();
  const double loss = t.evaluate(all).loss;
  t.set_state<float>(3, "variance", far);
  CHECK(t.state(3, "variance") == far);
  CHECK(t.state(3, "mean") == none);
  CHECK(t.evaluate(all).loss != loss);
  CHECK(t.parameter_hash() == hash);
  t.step(all);
  CHECK(t.state(3, "mean") != none);
  CHECK(t.state(3, "variance")[0] < 1e4F);
  const auto refused = [](auto call, const char* what) {
    CHECK_THROWS_WITH_AS(call(), doctest::Contains(what), error);
  };
  refused([&] { t.state(3, "weight"); }, "the layer has no state \"weight\"; its state: mean, variance");
  refused([&] { t.parameter(3, "mean"); }, "the layer has no parameter \"mean\"");
  refused([&] { t.state(0, "mean"); }, "the layer has no state");
  refused([&] { t.state(5, "mean"); }, "the model has no slot 5");
  refused([&] { t.state<double>(3, "mean"); }, "state \"mean\" is float; read it as that");
  refused([&] { t.set_state<float>(3, "mean", std::vector<float>(3)); }, "state \"mean\" has 4 elements, not 3");
}

TEST_CASE("a parameter that is not there, or is something else, is refused") {
  training t(two);
  const auto refused = [](auto call, const char* what) {
    CHECK_THROWS_WITH_AS(call(), doctest::Contains(what), error);
  };
  refused([&] { t.parameter(4, "weight"); }, "the model has no slot 4; slots are 0 to 3");
  refused([&] { t.parameter(-1, "weight"); }, "the model has no slot -1");
  refused([&] { t.gradient(1, "bias"); }, "layer 1 laws::cross: the layer has no parameter \"bias\"");
  refused([&] { t.parameter(0, "weight"); }, "the layer has no parameter \"weight\"");
  refused([&] { t.parameter<double>(1, "weight"); }, "parameter \"weight\" is float; read it as that");
  refused([&] { t.set_parameter<float>(1, "weight", std::vector<float>(3)); },
          "parameter \"weight\" has 2 elements, not 3; give it all of them");
  refused([&] { t.moment(1, "weight", 2); }, "the optimizer has no moment 2; it keeps 2 arrays");
  refused([&] { t.moment(1, "weight", -1); }, "the optimizer has no moment -1");
}

TEST_CASE("planned by what was measured, an unbalanced network gets faster by as much as the plan says") {
  // Analytically all sleepers are alike, and the half with the long one would take 15 of 20 units.
  const std::vector<float> inputs(4);
  const std::vector<std::int32_t> kinds(4);
  const batch four = batch(4).with("inputs", inputs).with("labels", kinds);
  plan_options options{.stages = 2, .micro_batches = 4, .micro_batch_size = 1, .recompute = recompute_mode::never};
  trainer<sleepers, sgd> unknowing(options);
  const measured_profile costs = unknowing.measure(four, 4);
  options.measured = costs.view();
  trainer<sleepers, sgd> knowing(options);
  const auto reckoned_ms = [&](const run_plan& plan) {
    const run_plan by_costs = make_plan(network_of<sleepers>, options, {plan.first[1]});
    return 1e-9 * static_cast<double>(step_time(network_of<sleepers>, by_costs));
  };
  const double reckoned_gain = reckoned_ms(unknowing.plan()) / reckoned_ms(knowing.plan());
  const auto take = [&](trainer<sleepers, sgd>& t, double& fastest_ms) {
    t.forget();
    t.step(four);
    fastest_ms = std::min(fastest_ms, breakdown_of(t.report()).step_ms());
  };
  double before = 1e9, after = 1e9, gain_over_reckoned = 0;
  const auto as_reckoned = [&] { return gain_over_reckoned > 0.88 && gain_over_reckoned < 1.12; };
  // The fastest of a few steps, or of more where the machine has other work.
  for (int i = 0; i < 30 && (i < 4 || !as_reckoned()); ++i) {
    take(unknowing, before);
    take(knowing, after);
    gain_over_reckoned = before / after / reckoned_gain;
  }

  CHECK(knowing.plan().first[1] < unknowing.plan().first[1]);
  CHECK(knowing.parameter_hash() == unknowing.parameter_hash());
  CHECK(reckoned_gain > 1.15);
  CHECK(before > after);
  INFO("the measured gain is ", gain_over_reckoned, " of the reckoned");
  CHECK(as_reckoned());
}

namespace {

/// A schedule of the user's own: 1F1B under another name.
struct mine : one_f_one_b {
  static constexpr const char* name() { return "mine"; }
};
using by_hand = plan<net, cut_at<1>, micro_batches<2>, micro_batch_size<3>, schedule<mine>>;

}  // namespace

TEST_CASE("a compiled plan runs as it was proven: by its own cut, on its own schedule") {
  trainer t{by_hand{}, adam{}};
  CHECK(t.plan().first == std::vector<int>{0, 1, 4});
  CHECK(trainer<net, adam>(two).plan().first != t.plan().first);
  CHECK(std::string(t.plan().schedule.name()) == "mine");
  CHECK(t.plan().memory[0].total() == by_hand::memory(0).total());
  trainer<net, adam> other(two);
  CHECK(t.step(all).loss == other.step(all).loss);
  CHECK(t.parameter_hash() == other.parameter_hash());
  training_options how;
  how.cut = {3};  // said once more at run time, it is that one
  CHECK(trainer(by_hand{}, adam{}, how).plan().first == std::vector<int>{0, 3, 4});
}

TEST_CASE("plans that are none are refused") {
  CHECK_THROWS_AS(training({.stages = 5}), error);
  CHECK_THROWS_AS(training({.micro_batches = 0}), error);
  CHECK_THROWS_AS(training({.stages = 2}, {}, {.cut = {1, 2}}), error);
}

TEST_CASE("a rate, a clip and a deadline that are none are refused, and change nothing") {
  training_options how;
  how.rate = [](std::uint64_t) { return std::numeric_limits<double>::quiet_NaN(); };
  training lost{two, adam{}, how};
  const auto before = lost.parameter_hash();
  CHECK_THROWS_WITH_AS(lost.step(all), doctest::Contains("the learning rate is "), error);
  CHECK(lost.parameter_hash() == before);
  how = {};
  how.clip = -1;
  training clipped{two, adam{}, how};
  CHECK_THROWS_WITH_AS(clipped.step(all), doctest::Contains("the largest norm is -1"), error);
  how = {};
  how.deadline = std::chrono::nanoseconds(0);
  CHECK_THROWS_WITH_AS((training{two, adam{}, how}), doctest::Contains("a deadline of 0 s"), error);
}

namespace {

batch some(int first, int n) {
  const auto rows = [&](const auto& from, std::size_t wide) {
    return std::span(from).subspan(wide * static_cast<std::size_t>(first), wide * static_cast<std::size_t>(n));
  };
  batch b(n);
  return b.with("inputs", rows(x, 4)).with("labels", rows(labels, 1));
}
void refused(const char* what, const std::function<void()>& call) {
  CHECK_THROWS_WITH_AS(call(), doctest::Contains(what), error);
}

}  // namespace

TEST_CASE("accumulated calls and the step after them are one mini-batch") {
  training whole(plan_options{.micro_batches = 4, .micro_batch_size = 1}, adam{}, {.clip = 0.1});
  training parts(plan_options{.stages = 2, .micro_batches = 2, .micro_batch_size = 1}, adam{}, {.clip = 0.1});
  const auto before = parts.parameter_hash();
  const outcome first = parts.accumulate(some(0, 2));
  CHECK(first.samples == 2);
  CHECK(first.norm > 0);
  CHECK(first.loss == parts.evaluate(some(0, 2)).loss);  // an evaluation in between changes nothing
  CHECK(parts.accumulated() == 1);
  CHECK(parts.steps() == 0);
  CHECK(parts.parameter_hash() == before);
  const outcome found = parts.step(some(2, 2)), expected = whole.step(some(0, 4));
  CHECK(parts.accumulated() == 0);
  CHECK(parts.steps() == 1);
  CHECK(found.samples == 4);
  CHECK(found.weight == 4);
  CHECK(found.loss == expected.loss);
  CHECK(found.norm == expected.norm);
  CHECK(parts.parameter_hash() == whole.parameter_hash());

  // As micro-batches of other sizes: to rounding.
  training other(plan_options{.micro_batches = 2, .micro_batch_size = 3}), one(two);
  other.accumulate(some(0, 1));
  other.accumulate(some(1, 1));
  const outcome near = other.step(some(2, 3)), far = one.step(all);
  CHECK(near.loss == doctest::Approx(far.loss));
  CHECK(near.norm == doctest::Approx(far.norm));
  CHECK(other.parameter(1, "weight")[0] == doctest::Approx(one.parameter(1, "weight")[0]));

  // The step after starts anew, and what is discarded does not count.
  parts.accumulate(some(3, 2));
  parts.discard();
  CHECK(parts.accumulated() == 0);
  whole.step(some(0, 2));
  parts.step(some(0, 2));
  CHECK(parts.parameter_hash() == whole.parameter_hash());
}

TEST_CASE("a part without weight is no mistake, a mini-batch without is") {
  training t(two), twin(two);
  const std::vector<float> none(5), ones(5, 1.0F);
  const auto weighted = [](const std::vector<float>& weights) { return batch(all).with("weights", weights); };
  CHECK(t.accumulate(weighted(none)).weight == 0);
  t.step(weighted(ones));
  twin.step(all);
  CHECK(t.parameter_hash() == twin.parameter_hash());
  t.accumulate(weighted(none));
  refused("the weights of the batch's samples sum to 0", [&] { t.step(weighted(none)); });
  const std::vector<float> bad(20, std::numeric_limits<float>::infinity());
  const batch both = batch(5).with("inputs", bad).with("labels", labels).with("weights", none);
  refused("the field \"inputs\" of the data is not finite", [&] { t.accumulate(both); });
}

TEST_CASE("what fails drops what was accumulated, and says so; what is refused does not") {
  std::function<void(const instruction&)> disturbance;
  training_options how;
  how.before = [&](const instruction& i) {
    if (disturbance) disturbance(i);
  };
  training t(two, adam{}, how), twin(two);
  const auto before = t.parameter_hash();
  t.accumulate(some(0, 2));
  refused("the batch lacks the field \"labels\"",
          [&] { t.accumulate(batch(1).with("inputs", std::span(x).first(4))); });
  refused("has 7 samples", [&] { t.step(batch(7)); });
  refused("the learning rate is ", [&] { t.step(some(0, 1), std::numeric_limits<double>::infinity()); });
  CHECK(t.accumulated() == 1);

  t.accumulate(some(0, 2));
  disturbance = [](const instruction& i) {
    if (i.kind == act::reduce && i.stage == 0) throw std::runtime_error("no");
  };
  refused("no; the gradients of 2 accumulated calls are dropped: accumulate anew", [&] { t.step(some(2, 2)); });
  CHECK(t.accumulated() == 0);
  try {
    t.accumulate(some(0, 2));
  } catch (const error& cause) {
    CHECK(cause.remedy().empty());  // nothing was there to be dropped
  }
  disturbance = {};
  t.accumulate(some(2, 2));
  const std::vector<float> bad(4, std::numeric_limits<float>::quiet_NaN());
  try {
    t.accumulate(batch(1).with("inputs", bad).with("labels", std::span(labels).first(1)));
    CHECK(false);
  } catch (const error& cause) {
    CHECK(cause.wrong().find("the field \"inputs\" of the data is not finite") == 0);
    CHECK(cause.remedy().find("the gradients of 1 accumulated call are dropped: accumulate anew") != std::string::npos);
    CHECK(cause.where().slot == 0);
  }
  CHECK(t.accumulated() == 0);
  CHECK(t.parameter_hash() == before);
  t.accumulate(some(0, 2));
  twin.accumulate(some(0, 2));
  t.step(some(2, 3));
  twin.step(some(2, 3));
  CHECK(t.parameter_hash() == twin.parameter_hash());
}

TEST_CASE("gradients that are finite, and whose sum is not") {
  training t(two);
  t.set_parameter<float>(1, "weight", std::vector<float>{1, 1});
  const auto before = t.parameter_hash();
  std::vector<float> large(20, 7e18F);  // of weight i: the sum of x[2 + i]^2, 2.45e38
  for (std::size_t i = 0; i < 20; ++i)
    if (i % 4 < 2) large[i] = -large[i];
  const batch b = batch(5).with("inputs", large).with("labels", labels);
  t.accumulate(b);
  refused("the sum of the accumulated gradients is not finite, though those of this call are",
          [&] { t.accumulate(b); });
  CHECK(t.accumulated() == 0);
  t.accumulate(b);
  refused("the gradients of 1 accumulated call are dropped", [&] { t.step(b); });
  CHECK(t.parameter_hash() == before);
}

TEST_CASE("a rate of one's own, and one for a single step") {
  std::vector<std::uint64_t> asked;
  training_options how;
  how.rate = [&](std::uint64_t step) { return asked.push_back(step), 1.0 / static_cast<double>(step + 1); };
  trainer<net, sgd> t(two, sgd{.learning_rate = 0.5}, how), still(two, sgd{.learning_rate = 0.5});
  const auto before = t.parameter_hash();
  CHECK(t.step(all, 0).norm > 0);
  CHECK(t.parameter_hash() == before);
  CHECK(t.rate() == 0.25);  // of the second step
  still.step(all, 0);
  t.step(all);
  still.step(all, 0.25);
  CHECK(t.parameter_hash() == still.parameter_hash());
  CHECK(asked == std::vector<std::uint64_t>{1, 1});
}

namespace {

/// y = x w + b, element by element, with both parts of backward in one.
struct fused {
  template <class In>
  struct on;
  template <class T, int N>
  struct on<tensor<T, N>> {
    using output = tensor<T, N>;
    static constexpr parameter parameters[] = {{"weight", {N}, initialiser::ones()}, {"bias", {N}}};
    static constexpr keep keeps{.input = true};
    static void forward(const auto&, const auto& a) {
      loop(a.samples() * N, [&](int i) {
        a.out()[i] = a.in()[i] * a.template parameter<0>()[i % N] + a.template parameter<1>()[i % N];
      });
    }
    static void backward_input(const auto&, const auto& a) {
      loop(a.samples() * N,
           [&](int i) { a.in_gradient()[i] = a.out_gradient()[i] * a.template parameter<0>()[i % N]; });
    }
    static void backward_parameters(const auto&, const auto& a) {
      loop(a.samples() * N, [&](int i) {
        a.template gradient<0>()[i % N] += a.out_gradient()[i] * a.in()[i];
        a.template gradient<1>()[i % N] += a.out_gradient()[i];
      });
    }
    static void backward(const auto& c, const auto& a) {
      backward_input(c, a);
      backward_parameters(c, a);
    }
  };
};
struct deep : model<input<float, 4>, linear<4>, fused, linear<4>, passing_loss> {};

}  // namespace

TEST_CASE("what is frozen does not change, and counts in no norm") {
  for (const int stages : {1, 2, 4}) {
    trainer<deep, adamw> t(plan_options{.stages = stages, .micro_batches = 2, .micro_batch_size = 3},
                           adamw{.learning_rate = 0.1});
    t.step(all);
    const auto of = [&](int slot) {
      std::vector<std::vector<float>> values;
      for (const char* name : {"weight", "bias"})
        for (const auto& v : {t.parameter(slot, name), t.moment(slot, name, 0), t.moment(slot, name, 1)})
          values.push_back(v);
      return values;
    };
    const auto norm = [&](std::initializer_list<int> slots) {
      double sum = 0;
      for (const int slot : slots)
        for (const char* name : {"weight", "bias"})
          for (const float g : t.gradient(slot, name)) sum += static_cast<double>(g) * static_cast<double>(g);
      return std::sqrt(sum) / 5;
    };
    t.freeze(1);
    double found = 0;
    auto first = of(0), second = of(1), third = of(2);
    found = t.step(all).norm;
    CHECK(found == doctest::Approx(norm({0, 2})));
    CHECK(norm({1}) == 0);
    CHECK(of(0) != first);
    CHECK(of(1) == second);
    CHECK(of(2) != third);
    t.unfreeze(1);
    t.freeze(0, 2);
    first = of(0), third = of(2);
    found = t.step(all).norm;
    CHECK(found == doctest::Approx(norm({2})));
    CHECK(of(0) == first);
    CHECK(of(1) == second);
    CHECK(of(2) != third);
    t.unfreeze(0, 4);
    found = t.step(all).norm;
    CHECK(found == doctest::Approx(norm({0, 1, 2})));
    CHECK(of(0) != first);
    CHECK(of(1) != second);
    t.accumulate(some(0, 2));  // what is frozen in between does not count either
    t.freeze(0, 2);
    found = t.step(some(2, 3)).norm;
    CHECK(norm({1}) > 0);
    CHECK(found == doctest::Approx(norm({2})));
    t.freeze(0, 4);
    const auto before = t.parameter_hash();
    CHECK(t.step(all).norm == 0);
    CHECK(t.parameter_hash() == before);
    refused("the model has no slot 4", [&] { t.freeze(4); });
    refused("the model has no slot -1", [&] { t.unfreeze(-1, 2); });
    refused("the slots [3, 1) end before they begin", [&] { t.freeze(3, 1); });
  }
}

TEST_CASE("evaluations between steps change no bit of a training") {
  training t(two, adam{}, {.clip = 1}), twin(two, adam{}, {.clip = 1});
  for (int i = 0; i < 3; ++i) {
    t.evaluate(data);
    t.predict(data);
    CHECK(t.step(all).norm == twin.step(all).norm);
  }
  CHECK(t.parameter_hash() == twin.parameter_hash());
  CHECK(t.moment(1, "weight", 1) == twin.moment(1, "weight", 1));
}

namespace {

/// The loss of a classifier that also tells how often the label is among the two greatest, and the greatest input.
struct telling_loss {
  template <class In>
  struct on;
  template <class T, int N>
  struct on<tensor<T, N>> : softmax_cross_entropy::on<tensor<T, N>> {
    using base = softmax_cross_entropy::on<tensor<T, N>>;
    static constexpr const char* partials[] = {"loss", "weight", "correct", "top 2", "largest"};
    template <class C, class A>
    static void forward(const C& c, const A& a) {
      base::forward(c, a);
      double* told = a.partials();
      if (told == nullptr) return;
      told[3] = told[4] = 0;
      loop(a.samples(), [&](int row) {
        const T* in = a.in() + row * N;
        const auto label = a.template field<0, std::int32_t>()[row];
        int above = 0;
        loop(N, [&](int i) { above += in[i] > in[label]; });
        told[3] += above < 2;
        told[4] += static_cast<double>(*std::max_element(in, in + N));
      });
    }
  };
};
/// A loss that tells more than an outcome holds.
struct chatty_loss {
  template <class In>
  struct on;
  template <class T, int N>
  struct on<tensor<T, N>> : passing_loss::on<tensor<T, N>> {
    static constexpr const char* partials[] = {"weight", "loss", "1", "2", "3", "4", "5", "6", "7"};
  };
};
struct chatty_net : model<input<float, 4>, linear<4>, chatty_loss> {};
struct telling_net : model<input<float, 4>, linear<4>, telling_loss> {};

}  // namespace

TEST_CASE("a loss tells more than the loss: the means of its partials, by name") {
  trainer<telling_net, sgd> t(plan_options{.stages = 2, .micro_batches = 2, .micro_batch_size = 2});
  const auto expected = [&](auto of) {
    const sample_rows logits = t.predict(data);
    double sum = 0;
    for (int i = 0; i < 5; ++i) {
      std::vector<float> row(logits.of(i).begin(), logits.of(i).end());
      sum += of(row, row[static_cast<std::size_t>(labels[static_cast<std::size_t>(i)])]);
    }
    return sum / 5;
  };
  const double top = expected([](std::vector<float> row, float own) {
    std::sort(row.rbegin(), row.rend());
    return own >= row[1] ? 1 : 0;
  });
  const double largest = expected([](const std::vector<float>& row, float) {
    return static_cast<double>(*std::max_element(row.begin(), row.end()));
  });
  const outcome whole = t.evaluate(data);  // 4 + 1
  CHECK(whole.metric("top 2") == doctest::Approx(top));
  CHECK(whole.metric("largest") == doctest::Approx(largest));
  CHECK(whole.metric("correct") == whole.accuracy());
  CHECK(whole.metric("loss") == doctest::Approx(whole.loss));
  t.accumulate(some(0, 2));
  CHECK(t.step(some(2, 3), 0).metric("top 2") == doctest::Approx(top));
  refused("the loss tells no \"top 5\"; it tells loss, weight, correct, top 2, largest",
          [&] { whole.metric("top 5"); });
  refused("the loss tells 9 numbers; an outcome tells at most 8",
          [] { trainer<chatty_net, sgd>(plan_options{.micro_batches = 1, .micro_batch_size = 2}); });
  refused("it tells nothing", [] { static_cast<void>(outcome{}.metric("loss")); });
}

TEST_CASE("hooks are called after every step that was taken; what they throw, the caller gets, and the step stands") {
  training t(two), twin(two);
  std::vector<std::uint64_t> counted;
  std::vector<float> seen;
  double loss = 0;
  t.on_step([&](const outcome& found, std::uint64_t steps) {
    counted.push_back(steps);
    loss = found.loss;
    seen = t.parameter(1, "weight");
    if (steps == 2) throw std::runtime_error("enough");
  });
  int second = 0;
  t.on_step([&](const outcome&, std::uint64_t) { ++second; });
  t.accumulate(some(0, 2));
  CHECK(counted.empty());
  t.discard();
  CHECK(t.step(all).loss == loss);
  CHECK(seen == t.parameter(1, "weight"));
  CHECK_THROWS_WITH_AS(t.step(all), "enough", std::runtime_error);
  CHECK(t.steps() == 2);
  CHECK_THROWS_AS(t.step(batch(1)), error);
  t.step(all);
  CHECK(counted == std::vector<std::uint64_t>{1, 2, 3});
  CHECK(second == 2);
  for (int i = 0; i < 3; ++i) twin.step(all);
  CHECK(t.parameter_hash() == twin.parameter_hash());
}

TEST_CASE("a hook may add hooks, more than there was room for") {
  training t(two);
  std::vector<std::uint64_t> told;
  t.on_step([&t, &told](const outcome&, std::uint64_t steps) {
    for (int i = 0; i < 9; ++i) t.on_step([&told](const outcome&, std::uint64_t later) { told.push_back(later); });
    told.push_back(10 * steps);
  });
  t.step(all);
  CHECK(told == std::vector<std::uint64_t>{10, 1, 1, 1, 1, 1, 1, 1, 1, 1});
}

TEST_CASE("of a measurement that fails no slot is timed any longer") {
  training t(two);
  const std::span<const float> rows(x);
  CHECK_THROWS_WITH_AS(t.measure(batch(2).with("inputs", rows.first(8)).with("labels", std::span(labels).first(2))),
                       doctest::Contains("no full micro-batch was timed"), error);
  t.step(all);
  CHECK_THROWS_AS(t.measured(), error);
  CHECK(t.measure(all, 1).layers.size() == 4);
}

TEST_CASE("predictions are what enters the loss, a row a sample, and need no labels") {
  const training reference(plan_options{.micro_batches = 1, .micro_batch_size = 5});
  const auto w = reference.parameter(1, "weight");
  for (const int S : {1, 2, 4})
    for (const int M : {1, 2}) {
      training t(plan_options{.stages = S, .micro_batches = M, .micro_batch_size = 1});
      const dataset inputs = dataset{}.with("inputs", 4, x);
      for (const dataset& from : {inputs, data}) {
        const sample_rows found = t.predict(from);
        CHECK(found.samples() == 5);
        CHECK(found.tensors() == 1);
        REQUIRE(found.all().size() == 20);
        for (std::size_t i = 0; i < 5; ++i) {  // (a, b) -> (b w, a + b)
          const float* in = &x[4 * i];
          const std::vector<float> row(found.of(static_cast<int>(i)).begin(), found.of(static_cast<int>(i)).end());
          CHECK(row == std::vector<float>{in[2] * w[0], in[3] * w[1], in[0] + in[2], in[1] + in[3]});
        }
      }
      CHECK(t.predict(batch(1).with("inputs", std::span(x).last(4))).all()[2] == x[16] + x[18]);
      t.step(some(0, M));  // as if nothing had been
      refused("the batch lacks the field \"labels\"", [&] { t.step(batch(1).with("inputs", std::span(x).first(4))); });
      refused("the batch is empty", [&] { t.predict(batch(0)); });
      refused("has 3 samples", [&] { t.predict(batch(3)); });
      refused("has 2147483647 samples", [&] { t.predict(batch((std::numeric_limits<int>::max)())); });
      refused("the batch lacks the field \"inputs\"", [&] { t.predict(batch(1)); });
      refused("the dataset has no samples", [&] { t.predict(*std::make_unique<dataset>()); });
      refused("there is no tensor 1", [&] { static_cast<void>(t.predict(data).all(1)); });
      refused("tensor 0 holds float", [&] { static_cast<void>(t.predict(data).all<double>()); });
      refused("there is no row of sample 5", [&] { static_cast<void>(t.predict(data).of(5)); });
    }
}

namespace {

/// Half the squared sums of two tensors.
struct pair_loss {
  template <class In>
  struct on;
  template <class T, int N>
  struct on<bundle<tensor<T, N>, tensor<T, N>>> {
    using output = bundle<>;
    static constexpr const char* partials[] = {"loss"};
    static constexpr keep keeps{.input = true};
    static void forward(const auto&, const auto& a) {
      double sum = 0;
      loop(a.samples() * N, [&](int i) {
        const T both = a.template in<0>()[i] + a.template in<1>()[i];
        sum += static_cast<double>(both * both) / 2;
      });
      if (a.partials()) *a.partials() = sum;
    }
    static void backward_input(const auto&, const auto& a) {
      loop(a.samples() * N, [&](int i) {
        const T both = a.template in<0>()[i] + a.template in<1>()[i];
        if (T* d = a.template in_gradient<0>()) d[i] = both;
        if (T* d = a.template in_gradient<1>()) d[i] = both;
      });
    }
  };
};
struct paired : model<input<float, 4>, halve, cross, pair_loss> {};

}  // namespace

TEST_CASE("where the loss reads several tensors, predictions hold them all; what is watched, all that is written") {
  trainer<paired, sgd> t(plan_options{.stages = 3, .micro_batches = 2, .micro_batch_size = 2});
  const auto w = t.parameter(1, "weight");
  const sample_rows found = t.predict(dataset{}.with("inputs", 4, x));
  CHECK(found.tensors() == 2);
  for (int i = 0; i < 5; ++i) {
    CHECK(found.of(i, 0)[1] == x[static_cast<std::size_t>(4 * i + 3)] * w[1]);
    CHECK(found.of(i, 1)[0] == x[static_cast<std::size_t>(4 * i)] + x[static_cast<std::size_t>(4 * i + 2)]);
  }
  refused("nobody watches the slot; call watch(1) before the step", [&] { t.activation(1); });
  t.watch(0);
  t.watch(1);
  t.step(batch(3).with("inputs", std::span(x).first(12)));
  const sample_rows &out = t.activation(1), &gradient = t.activation_gradient(1);
  CHECK(out.samples() == 3);
  for (int i = 0; i < 3; ++i)
    for (const int tensor : {0, 1})
      for (const std::size_t j : {std::size_t{0}, std::size_t{1}}) {
        CHECK(out.of(i, tensor)[j] == found.of(i, tensor)[j]);
        CHECK(gradient.of(i, tensor)[j] == found.of(i, 0)[j] + found.of(i, 1)[j]);
      }
  CHECK(t.activation(0).of(2, 1)[0] == x[10]);
  refused("has no rows; no gradient flows", [&] { static_cast<void>(t.activation_gradient(0).all()); });
  const std::vector<float> bad(4, std::numeric_limits<float>::quiet_NaN());
  CHECK_THROWS_AS(t.step(batch(1).with("inputs", bad)), error);
  CHECK(t.activation(1).samples() == 0);
  t.unwatch(1);
  refused("layer 1 laws::cross: nobody watches the slot", [&] { t.activation_gradient(1); });
  refused("the model has no slot 3", [&] { t.watch(3); });
}

TEST_CASE("two trainings are compared to the first action that left other bits") {
  training_options how;
  how.digest_calls = 3;
  const auto made = [&](int stages) {
    return std::make_unique<training>(
        plan_options{.stages = stages, .micro_batches = 2, .micro_batch_size = 3, .recompute = recompute_mode::always},
        adam{}, how);
  };
  const auto one = made(1), other = made(4);
  for (const auto* t : {&one, &other}) {
    (*t)->step(all);
    (*t)->evaluate(all);
    (*t)->accumulate(some(0, 2));
    (*t)->step(all);
    (*t)->step(all);  // is not kept
  }
  CHECK(one->digest().calls() == 3);
  CHECK_FALSE(first_difference(one->digest(), other->digest()));

  const auto third = made(2);
  third->step(all);
  third->accumulate(some(0, 2));
  auto changed = x;
  changed[13] += 1;  // sample 3, in the second micro-batch
  const auto weight = third->parameter(1, "weight");
  third->step(batch(5).with("inputs", changed).with("labels", labels));
  auto found = first_difference(one->digest(), third->digest());
  REQUIRE(found);
  CHECK(found->action == "data");
  CHECK(found->step == 1);

  const auto fourth = made(2);
  fourth->step(all);
  fourth->accumulate(some(0, 2));
  fourth->set_parameter<float>(1, "weight", std::vector<float>{weight[0], weight[1] + 1});
  fourth->step(all);
  found = first_difference(one->digest(), fourth->digest());
  REQUIRE(found);
  CHECK(found->slot == 1);
  CHECK(found->layer == "laws::cross");
  CHECK(found->action == "forward");
  CHECK(found->micro_batch == 2);  // the first of the step's second call
  CHECK(found->step == 1);

  const auto frozen = made(3);
  frozen->freeze(1);
  frozen->step(all);
  found = first_difference(one->digest(), frozen->digest());
  REQUIRE(found);
  CHECK(found->action == "backward parameters");
  CHECK(found->slot == 1);
  CHECK(found->micro_batch == 0);

  training faster(plan_options{.micro_batches = 2, .micro_batch_size = 3}, adam{.learning_rate = 1}, how);
  faster.step(all);
  found = first_difference(one->digest(), faster.digest());
  REQUIRE(found);
  CHECK(found->action == "update");
  CHECK(found->slot == 1);
  CHECK(found->micro_batch == -1);
}
