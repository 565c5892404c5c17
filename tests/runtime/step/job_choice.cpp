#include <gpipe/runtime/step/job_choice.hpp>

#include <doctest/doctest.h>

#include <gpipe/job.hpp>
#include <gpipe/runtime/executor.hpp>

#include "support/threaded_job.hpp"

using namespace gpipe;

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
