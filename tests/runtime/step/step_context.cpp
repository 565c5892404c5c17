// sanitizers: address

#include <gpipe/runtime/step/step_context.hpp>

#include <doctest/doctest.h>

#include <limits>

using namespace gpipe;
using namespace gpipe::detail;

TEST_CASE("micro-batch m holds the samples from m times ceil(batch / M) on") {
  step_context step;
  step.rows.samples = 13;
  step.per_micro_batch = 3;
  int sum = 0;
  for (int m = 0; m < 7; ++m) {
    CHECK(step.first_sample(m) == (m < 5 ? 3 * m : 13));
    CHECK(step.samples(m) == (m < 4 ? 3 : m == 4 ? 1 : 0));
    sum += step.samples(m);
  }
  CHECK(sum == 13);
  CHECK(step.filled() == 5);
  step.rows.samples = 12;
  CHECK(step.filled() == 4);
}

TEST_CASE("a replica has its part of the micro-batches and of the samples") {
  step_context step;
  step.rows.samples = 13;
  step.per_micro_batch = 3;
  step.first_micro_batch = 3;
  step.micro_batches = 3;
  CHECK(step.global_micro_batch(1) == 4);
  CHECK(step.first_sample(0) == 9);
  CHECK(step.samples(1) == 1);
  CHECK(step.samples(2) == 0);
  CHECK(step.filled() == 2);
  CHECK(step.filled_of_all() == 5);
  step.first_micro_batch = 6;
  CHECK(step.filled() == 0);
  step.first_micro_batch = 0;
  CHECK(step.filled() == 3);
}

TEST_CASE("the first call of a step and a diagnosis clear gradients") {
  step_context step;
  CHECK(step.clears());
  step.samples_before = 4;
  CHECK_FALSE(step.clears());
  step.begin(pass_kind::diagnose);
  CHECK(step.clears());
  step.begin(pass_kind::evaluate);
  CHECK_FALSE(step.clears());
}

TEST_CASE("the kind of a pass decides what it does") {
  using enum pass_kind;
  step_context step;
  const auto is = [&](pass_kind kind, bool trains, bool commits, bool applies, bool recorded, bool timed) {
    step.captured = true;
    step.begin(kind);
    return step.kind == kind && step.trains() == trains && step.commits() == commits && step.applies() == applies &&
           step.is_recorded() == recorded && step.is_timed() == timed && step.diagnoses() == (kind == diagnose) &&
           step.predicts() == (kind == predict) && !step.captured;
  };
  CHECK(is(train, true, true, true, true, true));
  CHECK(is(diagnose, true, true, false, false, false));
  CHECK(is(accumulate, true, false, false, true, true));
  CHECK(is(diagnose, true, false, false, false, false));
  CHECK(step.repeated == accumulate);
  CHECK(is(diagnose, true, false, false, false, false));  // of the same pass
  CHECK(is(measure, true, true, false, false, false));
  CHECK(is(evaluate, false, false, false, false, false));
  CHECK(is(diagnose, false, false, false, false, false));
  CHECK(is(predict, false, false, false, false, false));
  step.forward_only = true;
  CHECK(is(evaluate, false, false, false, false, true));
  CHECK(is(predict, false, false, false, false, true));
  CHECK(is(diagnose, false, false, false, false, false));
}

namespace {

// Loss, weight, correct of each micro-batch.
const std::vector<double> numbers{6, 4, 1, 0, 0, 0, 0, 0, 2, 3, 2, 0, 0, 0, 0, 0, 100, 100, 100, 0, 0, 0, 0, 0};

step_context batch_of(int samples, int per_micro_batch) {
  step_context step;
  step.rows.samples = samples;
  step.per_micro_batch = per_micro_batch;
  return step;
}

}  // namespace

TEST_CASE("sum adds the partials of the micro-batches with samples") {
  constexpr partial partials[] = {"loss", "weight", "correct"};
  layer_type loss;
  loss.partials = partials;
  loss.loss = 0, loss.weight = 1, loss.correct = 2, loss.partial_count = 3;
  commit_decision decision;
  decision.gathered.partials = numbers;
  decision.sum(loss, batch_of(5, 3));  // 3 + 2, the third is empty
  CHECK(decision.result.found.loss == 8.0 / 7);
  CHECK(decision.result.found.weight == 7);
  CHECK(decision.result.found.correct == 3);
  CHECK(decision.result.found.samples == 5);
  CHECK(decision.result.found.accuracy() == 3.0 / 7);
  loss.weight = loss.correct = -1;  // every sample has weight 1
  decision.sum(loss, batch_of(5, 3));
  CHECK(decision.result.found.weight == 5);
  CHECK(decision.result.found.correct == 0);
}

TEST_CASE("the mean gradient is clipped if its norm exceeds the limit") {
  commit_decision decision;
  decision.gathered.squares = {9, 0, 16};
  decision.result.found.weight = 2;
  decision.decide();
  CHECK(decision.result.holds);
  CHECK(decision.result.found.norm == 2.5);
  CHECK(decision.result.scale == 0.5);
  decision.terms.max_norm = 3;
  decision.decide();
  CHECK(decision.result.scale == 0.5);
  decision.terms.max_norm = 0.5;
  decision.decide();
  CHECK(decision.result.scale == doctest::Approx(0.5 * 0.5 / 2.5));
}

TEST_CASE("a weight whose inverse is too large for a float does not hold") {
  commit_decision decision;
  decision.gathered.squares = {1};
  decision.result.found.weight = 1e-44;
  decision.decide();
  CHECK_FALSE(decision.result.holds);
}

TEST_CASE("a commit does not hold if a number is not finite or the weight is not positive") {
  constexpr double infinite = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  const auto holds = [](double loss, double square, double weight) {
    commit_decision decision;
    decision.gathered.squares = {1, square};
    decision.result.found.loss = loss;
    decision.result.found.weight = weight;
    decision.decide();
    return decision.result.holds;
  };
  CHECK(holds(1, 1, 1));
  for (const double bad : {infinite, -infinite, nan}) {
    CHECK(!holds(bad, 1, 1));
    CHECK(!holds(1, bad, 1));
    CHECK(!holds(1, 1, bad));
  }
  CHECK(!holds(0, 0, 0));
  CHECK(!holds(1, 1, -1));
  CHECK(step_result{}.accuracy() == 0);
}
