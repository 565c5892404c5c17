#include <gpipe/train/trainer.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cfenv>
#include <chrono>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include <sys/resource.h>

#include <gpipe/device/contract/address_space.hpp>
#include <gpipe/make_plan.hpp>
#include <gpipe/plan/plan.hpp>
#include <gpipe/train/data/dataset.hpp>
#include <gpipe/train/fit.hpp>

#include "support/sanitized.hpp"
#include "support/small_training.hpp"

// Construction, steps, rates, evaluations, hooks and digests. The other tests are in trainer/. tests/laws has the same
// bits for every cut, failures and memory.

using namespace gpipe;
using namespace gpipe::detail;
using namespace laws;
using namespace small;

namespace {

/// Moves each parameter by the rate, against the sign of its gradient.
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

/// A custom schedule: 1F1B under another name.
struct mine : one_f_one_b {
  static constexpr const char* name() { return "mine"; }
};
using by_hand = plan<net, cut_at<1>, micro_batches<2>, micro_batch_size<3>, schedule<mine>>;

}  // namespace

TEST_CASE("a trainer is constructed from a compiled plan or from options") {
  using plan = gpipe::plan<net, stages<2>, micro_batches<2>, micro_batch_size<3>>;
  trainer compiled{plan{}, adam{.learning_rate = 0.01}};
  trainer<net, adam> chosen{two, adam{.learning_rate = 0.01}};
  CHECK(compiled.plan().first == chosen.plan().first);
  CHECK(compiled.step(all).loss == chosen.step(all).loss);
  CHECK(compiled.parameter_hash() == chosen.parameter_hash());
  CHECK_THROWS_WITH_AS(compiled.parameter_hash(1), "replica is 1; choose 0 to 0", error);
  CHECK_THROWS_WITH_AS(compiled.parameter_hash(-1), "replica is -1; choose 0 to 0", error);
  trainer with_more{plan{}, sgd{}, training_options{}};
  CHECK(with_more.plan().options.optimizer_moments == 1);  // the optimizer's
}

TEST_CASE("a precision chosen by the model, by the compiled plan or at run time gives the same bits") {
  using plan = gpipe::plan<net, stages<2>, micro_batches<2>, micro_batch_size<3>, precision_is<precision::bf16>>;
  plan_options chosen = two;
  chosen.precision = precision::bf16;
  trainer<both_precisions<net>, adam> both(chosen), wide(two);
  trainer<in_bf16<net>, adam> narrow(two);
  trainer compiled{plan{}, adam{}};
  training plain(two);
  CHECK(both.plan().options.precision == precision::bf16);
  CHECK(narrow.plan().options.precision == precision::bf16);
  CHECK(wide.plan().options.precision == precision::float32);
  CHECK(both.parameter_hash() == plain.parameter_hash());  // initial values are not rounded
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
                       "precision is bf16, and the network is in float32; plan the network of in_bf16<model>, "
                       "or make the trainer one of both_precisions<model>",
                       error);
}

TEST_CASE("a model in bf16 accepts float or bf16 inputs and predicts bf16") {
  trainer<in_bf16<net>, adam> floats(two), rounded(two);
  std::vector<float> inputs = x;
  for (float& value : inputs) value += 0.001F;  // so that rounding changes it
  const std::vector<bf16> narrow(inputs.begin(), inputs.end());
  const batch given = batch(5).with("inputs", inputs).with("labels", labels);
  CHECK(floats.step(given).loss == rounded.step(batch(5).with("inputs", narrow).with("labels", labels)).loss);
  CHECK(floats.parameter_hash() == rounded.parameter_hash());
  const tensor_rows found = floats.predict(given);
  CHECK(found.of<bf16>(4).size() == 4);
  CHECK_THROWS_WITH_AS(found.of(4), "tensor 0 holds bf16; read it as that type", error);
  const std::vector<double> doubles(x.begin(), x.end());
  CHECK_THROWS_WITH_AS(floats.step(batch(5).with("inputs", doubles).with("labels", labels)),
                       doctest::Contains("holds double, the model reads bf16"), error);
  CHECK(floats.parameter<float>(1, "weight").size() == 2);
}

TEST_CASE("in bf16 a number that is not finite is found as well") {
  trainer<in_bf16<net>, adam> narrow(two);
  std::vector<float> inputs = x;
  inputs[13] = std::numeric_limits<float>::max();  // rounds to infinity
  CHECK_THROWS_WITH_AS(narrow.step(batch(5).with("inputs", inputs).with("labels", labels)),
                       doctest::Contains("the field \"inputs\" of the data is not finite"), error);
}

TEST_CASE("training lowers the loss, and a second training gives the same bits") {
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

TEST_CASE("the caller's rounding changes no bit, whatever the number of stages, and the caller keeps it") {
  std::vector<std::uint64_t> hashes;
  for (const int rounding : {FE_TONEAREST, FE_UPWARD, FE_TOWARDZERO})
    for (const int stages : {1, 2}) {
      std::fesetround(rounding);
      training t({.stages = stages, .micro_batches = 2, .micro_batch_size = 3}, adam{.learning_rate = 0.1});
      for (int i = 0; i < 3; ++i) t.step(all);
      const int kept = std::fegetround();
      std::fesetround(FE_TONEAREST);
      CHECK(kept == rounding);
      hashes.push_back(t.parameter_hash());
    }
  for (const std::uint64_t hash : hashes) CHECK(hash == hashes[0]);
}

TEST_CASE("a custom optimizer without moments") {
  trainer<net, sign_descent> custom(two, {.learning_rate = 0.125});
  for (const memory_block& block : custom.plan().blocks[1]) CHECK(block.kind != memory_kind::moments);
  const std::vector<float> before = custom.parameter(1, "weight");
  custom.step(all);
  const std::vector<float> after = custom.parameter(1, "weight"), gradient = custom.array(1, "weight").gradient();
  for (std::size_t i = 0; i < before.size(); ++i) {
    CAPTURE(i);
    CHECK(after[i] == before[i] - (gradient[i] > 0 ? 0.125F : gradient[i] < 0 ? -0.125F : 0.0F));
  }
  CHECK(after != before);
  CHECK_THROWS_WITH_AS(custom.array(1, "weight").moment(0), doctest::Contains("the optimizer has no moment 0"), error);
}

TEST_CASE("the learning rate is the optimizer's times the schedule's") {
  training t(two, adam{.learning_rate = 0.5}, {.learning_rate_schedule = warm_up{.steps = 2}, .max_grad_norm = 1});
  CHECK(t.rate() == 0.25);
  t.step(all);
  CHECK(t.rate() == 0.5);
}

TEST_CASE("a custom learning-rate schedule, and a rate for a single step") {
  std::vector<std::uint64_t> steps_asked;
  training_options how;
  how.learning_rate_schedule = [&](std::uint64_t step) {
    return steps_asked.push_back(step), 1.0 / static_cast<double>(step + 1);
  };
  trainer<net, sgd> t(two, sgd{.learning_rate = 0.5}, how), still(two, sgd{.learning_rate = 0.5});
  const auto before = t.parameter_hash();
  CHECK(t.step(all, 0).norm > 0);
  CHECK(t.parameter_hash() == before);
  CHECK(t.rate() == 0.25);  // of the second step
  still.step(all, 0);
  t.step(all);
  still.step(all, 0.25);
  CHECK(t.parameter_hash() == still.parameter_hash());
  CHECK(steps_asked == std::vector<std::uint64_t>{0, 1, 1});  // once when the trainer is made
}

TEST_CASE("a compiled plan runs as proven: with its own cut and its custom schedule") {
  trainer t{by_hand{}, adam{}};
  CHECK(t.plan().first == std::vector<int>{0, 1, 4});
  CHECK(trainer<net, adam>(two).plan().first != t.plan().first);
  CHECK(std::string(t.plan().schedule) == "mine");
  CHECK(t.plan().memory(0).total() == by_hand::memory(0).total());
  trainer<net, adam> other(two);
  CHECK(t.step(all).loss == other.step(all).loss);
  CHECK(t.parameter_hash() == other.parameter_hash());
  training_options how;
  how.cut = {3};  // a cut given at run time wins
  CHECK(trainer(by_hand{}, adam{}, how).plan().first == std::vector<int>{0, 3, 4});
}

TEST_CASE("invalid plans are rejected") {
  CHECK_THROWS_AS(training({.stages = 5}), error);
  CHECK_THROWS_AS(training({.micro_batches = 0}), error);
  CHECK_THROWS_AS(training({.stages = 2}, {}, {.cut = {1, 2}}), error);
}

TEST_CASE("an invalid rate, clip or deadline is rejected and changes nothing") {
  training_options how;
  how.learning_rate_schedule = cosine{.steps = 0};
  rejects("steps of cosine is 0; choose 1 to 2^62 steps", [&] { training(two, adam{}, how); });
  how.learning_rate_schedule = [](std::uint64_t step) {
    return step == 1 ? std::numeric_limits<double>::quiet_NaN() : 1.0;
  };
  training lost{two, adam{}, how};
  lost.step(all);
  const auto before = lost.parameter_hash();
  rejects("learning_rate_schedule is nan at step 1; return a finite number, 0 or more", [&] { lost.step(all); });
  rejects("the learning rate is 1e+300, which a float cannot hold", [&] { lost.step(all, 1e300); });
  CHECK(lost.parameter_hash() == before);
  CHECK(lost.steps() == 1);
  how = {};
  for (const double norm : {-1.0, std::numeric_limits<double>::quiet_NaN()}) {
    how.max_grad_norm = norm;
    CHECK_THROWS_WITH_AS((training{two, adam{}, how}), doctest::Contains("choose 0 for no limit, or more"), error);
  }
  how.max_grad_norm = -1;
  rejects("max_grad_norm is -1; choose 0 for no limit, or more", [&] { training(two, adam{}, how); });
  how = {};
  how.deadline = std::chrono::nanoseconds(0);
  CHECK_THROWS_WITH_AS((training{two, adam{}, how}), doctest::Contains("deadline is 0 s"), error);
}

// Sanitizers need more addresses than the limit leaves.
#if defined(__linux__) && !defined(TESTS_SANITIZED)
TEST_CASE("4096 micro-batches in 256 replicas are refused by their predicted memory, before anything is allocated") {
  rlimit before{};
  REQUIRE(getrlimit(RLIMIT_AS, &before) == 0);
  rlimit low = before;
  low.rlim_cur = rlim_t{1} << 40;
  REQUIRE(setrlimit(RLIMIT_AS, &low) == 0);
  low.rlim_cur -= static_cast<rlim_t>(address_space_left());
  low.rlim_cur += rlim_t{256} << 20;
  REQUIRE(setrlimit(RLIMIT_AS, &low) == 0);
  std::string found;
  const auto begin = std::chrono::steady_clock::now();
  try {
    training large({.stages = 2,
                    .micro_batches = 4096,
                    .micro_batch_size = 1024,
                    .recompute = recompute_mode::except_last,
                    .replicas = 256});
  } catch (const std::exception& failure) {
    found = failure.what();
  }
  const auto took = std::chrono::steady_clock::now() - begin;
  REQUIRE(setrlimit(RLIMIT_AS, &before) == 0);
  CAPTURE(found);
  CHECK(found.find("stage 0: the memory of 512 stages is ") == 0);
  CHECK(took < std::chrono::seconds(2));  // 0.03 s, optimized; a plan that is quadratic in M takes a minute
}
#endif

TEST_CASE("evaluating a dataset covers every sample, in batches of the plan's size") {
  training t({.stages = 2, .micro_batches = 1, .micro_batch_size = 2});
  const step_result found = t.evaluate(data);  // 2 + 2 + 1
  CHECK(found.samples == 5);
  CHECK(found.weight == 5);
  CHECK(found.loss == doctest::Approx(training(two).evaluate(all).loss));
  const dataset none;
  CHECK_THROWS_WITH_AS(t.evaluate(none), doctest::Contains("the dataset has no samples"), error);
}

TEST_CASE("evaluations between steps change no bit of a training") {
  training t(two, adam{}, {.max_grad_norm = 1}), twin(two, adam{}, {.max_grad_norm = 1});
  for (int i = 0; i < 3; ++i) {
    t.evaluate(data);
    t.predict(data);
    CHECK(t.step(all).norm == twin.step(all).norm);
  }
  CHECK(t.parameter_hash() == twin.parameter_hash());
  CHECK(t.array(1, "weight").moment(1) == twin.array(1, "weight").moment(1));
}

TEST_CASE("hooks run after every completed step; the caller gets a hook's exception, and the step is not undone") {
  training t(two), twin(two);
  std::vector<std::uint64_t> counted;
  std::vector<float> seen;
  double loss = 0;
  t.on_step([&](const step_result& found, std::uint64_t steps) {
    counted.push_back(steps);
    loss = found.loss;
    seen = t.parameter(1, "weight");
    if (steps == 2) throw std::runtime_error("enough");
  });
  int second = 0;
  t.on_step([&](const step_result&, std::uint64_t) { ++second; });
  t.accumulate(some(0, 2));
  CHECK(counted.empty());
  t.discard_accumulated();
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

TEST_CASE("a hook may add more hooks than there was room for") {
  training t(two);
  std::vector<std::uint64_t> called;
  t.on_step([&t, &called](const step_result&, std::uint64_t steps) {
    for (int i = 0; i < 9; ++i)
      t.on_step([&called](const step_result&, std::uint64_t later) { called.push_back(later); });
    called.push_back(10 * steps);
  });
  t.step(all);
  CHECK(called == std::vector<std::uint64_t>{10, 1, 1, 1, 1, 1, 1, 1, 1, 1});
}

TEST_CASE("two trainings are compared up to the first action that left different bits") {
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
    (*t)->step(all);  // its digest is not kept
  }
  CHECK(one->digest().calls() == 3);
  CHECK_FALSE(first_difference(one->digest(), other->digest()));

  const auto third = made(2);
  third->step(all);
  third->accumulate(some(0, 2));
  auto changed = x;
  changed[13] += 1;  // sample 3, in the second micro-batch
  const auto weight = third->array(1, "weight").values();
  third->step(batch(5).with("inputs", changed).with("labels", labels));
  auto found = first_difference(one->digest(), third->digest());
  REQUIRE(found);
  CHECK(found->action == "data");
  CHECK(found->step == 1);

  const auto fourth = made(2);
  fourth->step(all);
  fourth->accumulate(some(0, 2));
  fourth->array(1, "weight").set(std::vector<float>{weight[0], weight[1] + 1});
  fourth->step(all);
  found = first_difference(one->digest(), fourth->digest());
  REQUIRE(found);
  CHECK(found->layer_index == 1);
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
  CHECK(found->layer_index == 1);
  CHECK(found->micro_batch == 0);

  training faster(plan_options{.micro_batches = 2, .micro_batch_size = 3}, adam{.learning_rate = 1}, how);
  faster.step(all);
  found = first_difference(one->digest(), faster.digest());
  REQUIRE(found);
  CHECK(found->action == "update");
  CHECK(found->layer_index == 1);
  CHECK(found->micro_batch == -1);
}

TEST_CASE("a compiler deduces the types of a trainer from a model, options and an optimizer") {
  trainer deduced{net{}, two, adam{}};
  static_assert(std::is_same_v<decltype(deduced), training>);
  training named(two);
  deduced.step(all), named.step(all);
  CHECK(deduced.parameter_hash() == named.parameter_hash());
  trainer seeded{net{}, two, adam{}, training_options{.seed = 3}};
  CHECK(seeded.steps() == 0);
}

TEST_CASE("a number that is not finite is named by the dataset's row and column") {
  std::vector<float> broken = x;
  broken[4 * 3 + 2] = std::numeric_limits<float>::quiet_NaN();
  const dataset from = dataset{}.with("inputs", 4, broken).with("labels", 1, labels).with_unread("id", 1, labels);
  training t(two);
  auto shuffled = from.shuffled(5, 3, 0);
  const batch all_of_it = *shuffled.begin();
  CHECK(all_of_it.dataset_rows()[3] != 3);
  rejects("of the data is not finite in row 3 of the dataset, column 2 (counted from 0)", [&] { t.step(all_of_it); });
  const batch alone = batch(5).with("inputs", broken).with("labels", labels);
  rejects("is not finite in sample 3, column 2", [&] { t.step(alone); });
}

TEST_CASE("a parameter that is not finite is named, and a negative learning rate is rejected") {
  training t(two);
  t.array(1, "weight").set(std::vector<float>{1, std::numeric_limits<float>::infinity()});
  rejects("its parameter \"weight\" is not finite", [&] { t.step(all); });
  rejects("the learning rate is -0.5; choose 0 or more", [&] { t.step(all, -0.5); });
  rejects("the learning rate is -1; choose 0 or more", [&] { training(two, adam{.learning_rate = -1}); });
}

namespace {

/// Says that it has `said` samples, and gives `given` batches of those of `data`, all of `size` samples; -1: no end.
struct lying_source final : data_source {
  int said, given, size;
  lying_source(int s, int g, int n) : said(s), given(g), size(n) {}

  struct stream final : data_stream {
    batch one;
    int left;
    explicit stream(const lying_source& from) : one(from.size), left(from.given) {
      static const std::vector<float> inputs(64 * 8, 0.5F);
      static const std::vector<std::int32_t> labels(64, 1);
      one.with("inputs", std::span(inputs).first(static_cast<std::size_t>(from.size) * 4));
      one.with("labels", std::span(labels).first(static_cast<std::size_t>(from.size)));
    }
    const batch* next() override { return left == 0 ? nullptr : (left -= left > 0, &one); }
  };
  int samples() const override { return said; }
  std::unique_ptr<data_stream> open(const batch_order&) const override {
    return given == 0 ? nullptr : std::make_unique<stream>(*this);
  }
};

}  // namespace

TEST_CASE("a source that does not give the samples that it says is an error, which names both numbers") {
  training t({.stages = 2, .micro_batches = 1, .micro_batch_size = 2});
  const auto refuses = [&](const lying_source& from, const char* what) {
    for (const auto& call : std::vector<std::function<void()>>{[&] { t.evaluate(from); }, [&] { t.predict(from); },
                                                               [&] { fit(t, from, {.epochs = 1, .batch = 2}); }})
      CHECK_THROWS_WITH_AS(call(), doctest::Contains(what), error);
  };
  refuses({8, 3, 2}, "the data end before the epoch does: after 6 of 8 samples");
  refuses({8, -1, 1}, "batch 0 of an epoch of 8 samples has 1, not 2");
  refuses({5, -1, 2}, "batch 2 of an epoch of 5 samples has 2, not 1");
  refuses({8, 0, 2}, "the data source opens no stream");
  CHECK_THROWS_WITH_AS(t.predict(lying_source(4, -1, 2)),
                       doctest::Contains("the data go on behind the epoch: 4 samples, and 2 more"), error);
  CHECK_THROWS_AS(t.evaluate(lying_source(4, 3, 2)), error);
  CHECK(t.predict(lying_source(4, 2, 2)).samples() == 4);
}
