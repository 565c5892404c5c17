#include <gpipe/runtime/step/training_options.hpp>

#include <doctest/doctest.h>

#include <type_traits>

#include <gpipe/job.hpp>
#include <gpipe/runtime/executor.hpp>

#include "support/threaded_job.hpp"

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

TEST_CASE("no job is the default, and a null one is none") {
  process_group* const none = nullptr;
  for (const job_choice& choice : {job_choice(), job_choice(nullptr), job_choice(none)}) {
    const bool is_none = choice == nullptr;
    CHECK(is_none);
  }
}

TEST_CASE("a job is used as its process group, and brings its set-up") {
  threaded::job job(1);
  job.run([&](process_group& here) {
    const job_choice choice = &here;
    const bool same = choice == &here, connects = choice.set_up().connect != nullptr;
    CHECK(same);
    CHECK(connects);
    CHECK(choice->ranks() == 1);
  });
}
