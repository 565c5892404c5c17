// sanitizers: none

#include <gpipe/runtime/step/training_options.hpp>

#include <doctest/doctest.h>

#include <type_traits>

#include <gpipe/job.hpp>

using namespace gpipe;

TEST_CASE("training_options are named in one initializer, and the rest keeps its default") {
  static_assert(std::is_aggregate_v<training_options>);
  const training_options options{.seed = 1, .learning_rate_schedule = cosine{100}, .max_grad_norm = 1, .graph = true};
  CHECK(options.seed == 1);
  CHECK(options.learning_rate_schedule(100) == 0);
  CHECK(options.max_grad_norm == 1);
  CHECK(options.graph);
  CHECK(options.cut.empty());
  CHECK(options.deadline == wait_limits{}.deadline);
  CHECK(options.job == nullptr);
  CHECK(training_options{}.learning_rate_schedule(7) == 1);
  CHECK(training_options{}.max_grad_norm == 0);
}
