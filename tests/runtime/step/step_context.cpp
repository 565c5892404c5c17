// sanitizers: address

#include <gpipe/runtime/step/step_context.hpp>

#include <doctest/doctest.h>

using namespace gpipe;

TEST_CASE("micro-batch m holds the samples from m times ceil(batch / M) on") {
  step_state step;
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

TEST_CASE("a replica has its part of the micro-batches, of samples and of names") {
  step_state step;
  step.rows.samples = 13;
  step.per_micro_batch = 3;
  step.first_micro_batch = 3;
  step.micro_batches = 3;
  CHECK(step.among_all(1) == 4);
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

TEST_CASE("gradients are summed anew in the first call of a step, and where one call is looked at") {
  step_state step;
  CHECK(step.clears());
  step.samples_before = 4;
  CHECK_FALSE(step.clears());
  step.examining = true;
  CHECK(step.clears());
  step.training = false;
  CHECK_FALSE(step.clears());
}
