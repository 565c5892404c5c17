// sanitizers: address

#include <gpipe/runtime/step/commit_decision.hpp>

#include <doctest/doctest.h>

#include <limits>

using namespace gpipe;

namespace {

// Loss, weight, correct of each micro-batch.
const std::vector<double> told{6, 4, 1, 0, 0, 0, 0, 0, 2, 3, 2, 0, 0, 0, 0, 0, 100, 100, 100, 0, 0, 0, 0, 0};

step_state batch_of(int samples, int per_micro_batch) {
  step_state step;
  step.rows.samples = samples;
  step.per_micro_batch = per_micro_batch;
  return step;
}

}  // namespace

TEST_CASE("partials are summed over the micro-batches that there are") {
  constexpr partial partials[] = {"loss", "weight", "correct"};
  row loss;
  loss.partials = partials;
  loss.loss = 0, loss.weight = 1, loss.correct = 2, loss.partial_count = 3;
  commit decision;
  decision.told = told;
  decision.sum(loss, batch_of(5, 3));  // 3 + 2, the third is empty
  CHECK(decision.found.loss == 8.0 / 7);
  CHECK(decision.found.weight == 7);
  CHECK(decision.found.correct == 3);
  CHECK(decision.found.samples == 5);
  CHECK(decision.found.accuracy() == 3.0 / 7);
  loss.weight = loss.correct = -1;  // samples count alike
  decision.sum(loss, batch_of(5, 3));
  CHECK(decision.found.weight == 5);
  CHECK(decision.found.correct == 0);
}

TEST_CASE("the gradient's mean is clipped where its norm is larger") {
  commit decision;
  decision.squares = {9, 0, 16};
  decision.found.weight = 2;
  decision.decide();
  CHECK(decision.holds);
  CHECK(decision.found.norm == 2.5);
  CHECK(decision.scale == 0.5);
  decision.clip = 3;
  decision.decide();
  CHECK(decision.scale == 0.5);
  decision.clip = 0.5;
  decision.decide();
  CHECK(decision.scale == doctest::Approx(0.5 * 0.5 / 2.5));
}

TEST_CASE("a weight that a float cannot divide by does not hold") {
  commit decision;
  decision.squares = {1};
  decision.found.weight = 1e-44;
  decision.decide();
  CHECK_FALSE(decision.holds);
}

TEST_CASE("what is not finite does not hold, nor what has no weight") {
  constexpr double infinite = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  const auto holds = [](double loss, double square, double weight) {
    commit decision;
    decision.squares = {1, square};
    decision.found.loss = loss;
    decision.found.weight = weight;
    decision.decide();
    return decision.holds;
  };
  CHECK(holds(1, 1, 1));
  for (const double bad : {infinite, -infinite, nan}) {
    CHECK(!holds(bad, 1, 1));
    CHECK(!holds(1, bad, 1));
    CHECK(!holds(1, 1, bad));
  }
  CHECK(!holds(0, 0, 0));
  CHECK(!holds(1, 1, -1));
  CHECK(outcome{}.accuracy() == 0);
}
