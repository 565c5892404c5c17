#include <doctest/doctest.h>

#include <cstddef>
#include <functional>
#include <limits>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "support/small_training.hpp"

using namespace gpipe;
using namespace laws;
using namespace small;

TEST_CASE("accumulated calls and the step after them form one mini-batch") {
  training whole(plan_options{.micro_batches = 4, .micro_batch_size = 1}, adam{}, {.max_grad_norm = 0.1});
  training parts(plan_options{.stages = 2, .micro_batches = 2, .micro_batch_size = 1}, adam{}, {.max_grad_norm = 0.1});
  const auto before = parts.parameter_hash();
  const step_result first = parts.accumulate(some(0, 2));
  CHECK(first.samples == 2);
  CHECK(first.norm > 0);
  CHECK(first.loss == parts.evaluate(some(0, 2)).loss);  // an evaluation in between changes nothing
  CHECK(parts.accumulated() == 1);
  CHECK(parts.steps() == 0);
  CHECK(parts.parameter_hash() == before);
  const step_result found = parts.step(some(2, 2)), expected = whole.step(some(0, 4));
  CHECK(parts.accumulated() == 0);
  CHECK(parts.steps() == 1);
  CHECK(found.samples == 4);
  CHECK(found.weight == 4);
  CHECK(found.loss == expected.loss);
  CHECK(found.norm == expected.norm);
  CHECK(parts.parameter_hash() == whole.parameter_hash());

  // With micro-batches of other sizes the results agree up to rounding.
  training other(plan_options{.micro_batches = 2, .micro_batch_size = 3}), one(two);
  other.accumulate(some(0, 1));
  other.accumulate(some(1, 1));
  const step_result near = other.step(some(2, 3)), far = one.step(all);
  CHECK(near.loss == doctest::Approx(far.loss));
  CHECK(near.norm == doctest::Approx(far.norm));
  CHECK(other.parameter(1, "weight")[0] == doctest::Approx(one.parameter(1, "weight")[0]));

  // The next step starts from zero, and discarded gradients do not count.
  parts.accumulate(some(3, 2));
  parts.discard_accumulated();
  CHECK(parts.accumulated() == 0);
  whole.step(some(0, 2));
  parts.step(some(0, 2));
  CHECK(parts.parameter_hash() == whole.parameter_hash());
}

TEST_CASE("an accumulated call may have weight 0, a mini-batch may not") {
  training t(two), twin(two);
  const std::vector<float> none(5), ones(5, 1.0F);
  const auto weighted = [](const std::vector<float>& weights) { return batch(all).with("weights", weights); };
  CHECK(t.accumulate(weighted(none)).weight == 0);
  t.step(weighted(ones));
  twin.step(all);
  CHECK(t.parameter_hash() == twin.parameter_hash());
  t.accumulate(weighted(none));
  rejects("the weights of the batch's samples sum to 0", [&] { t.step(weighted(none)); });
  const std::vector<float> bad(20, std::numeric_limits<float>::infinity());
  const batch both = batch(5).with("inputs", bad).with("labels", labels).with("weights", none);
  rejects("the field \"inputs\" of the data is not finite", [&] { t.accumulate(both); });
}

TEST_CASE("a failed call drops the accumulated gradients and says so; a rejected call keeps them") {
  std::function<void(const instruction&)> disturbance;
  training_options how;
  how.before = [&](const instruction& i) {
    if (disturbance) disturbance(i);
  };
  training t(two, adam{}, how), twin(two);
  const auto before = t.parameter_hash();
  t.accumulate(some(0, 2));
  rejects("the batch lacks the field \"labels\"",
          [&] { t.accumulate(batch(1).with("inputs", std::span(x).first(4))); });
  rejects("has 7 samples", [&] { t.step(batch(7)); });
  rejects("the learning rate is ", [&] { t.step(some(0, 1), std::numeric_limits<double>::infinity()); });
  CHECK(t.accumulated() == 1);

  t.accumulate(some(0, 2));
  disturbance = [](const instruction& i) {
    if (i.kind == action_kind::reduce && i.stage == 0) throw std::runtime_error("no");
  };
  rejects("no; the gradients of 2 accumulated calls are dropped: accumulate again", [&] { t.step(some(2, 2)); });
  CHECK(t.accumulated() == 0);
  try {
    t.accumulate(some(0, 2));
  } catch (const error& cause) {
    CHECK(cause.remedy().empty());  // no gradients were accumulated
  }
  disturbance = {};
  t.accumulate(some(2, 2));
  const std::vector<float> bad(4, std::numeric_limits<float>::quiet_NaN());
  try {
    t.accumulate(batch(1).with("inputs", bad).with("labels", std::span(labels).first(1)));
    CHECK(false);
  } catch (const error& cause) {
    CHECK(cause.wrong().find("the field \"inputs\" of the data is not finite") == 0);
    CHECK(cause.remedy().find("the gradients of 1 accumulated call are dropped: accumulate again") !=
          std::string::npos);
    CHECK(cause.where().layer_index == 0);
  }
  CHECK(t.accumulated() == 0);
  CHECK(t.parameter_hash() == before);
  t.accumulate(some(0, 2));
  twin.accumulate(some(0, 2));
  t.step(some(2, 3));
  twin.step(some(2, 3));
  CHECK(t.parameter_hash() == twin.parameter_hash());
}

TEST_CASE("finite gradients whose sum is not finite") {
  training t(two);
  t.array(1, "weight").set(std::vector<float>{1, 1});
  const auto before = t.parameter_hash();
  std::vector<float> large(20, 7e18F);  // the gradient of weight i is the sum of x[2 + i]^2, 2.45e38
  for (std::size_t i = 0; i < 20; ++i)
    if (i % 4 < 2) large[i] = -large[i];
  const batch b = batch(5).with("inputs", large).with("labels", labels);
  t.accumulate(b);
  rejects("the sum of the accumulated gradients is not finite, though those of this call are",
          [&] { t.accumulate(b); });
  CHECK(t.accumulated() == 0);
  t.accumulate(b);
  rejects("the gradients of 1 accumulated call are dropped", [&] { t.step(b); });
  CHECK(t.parameter_hash() == before);
}
