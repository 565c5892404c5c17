// sanitizers: address

#include <gpipe/runtime/step/step_context.hpp>

#include <doctest/doctest.h>

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
