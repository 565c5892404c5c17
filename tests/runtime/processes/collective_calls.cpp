#include <gpipe/runtime/processes/collective_calls.hpp>

#include <doctest/doctest.h>

#include <atomic>
#include <string>
#include <thread>

#include "support/threaded_job.hpp"

using namespace gpipe;
using namespace gpipe::detail;

TEST_CASE("one process agrees with itself, and its failures pass unchanged") {
  const detail::collective_calls calls(nullptr);
  calls.agree_to_freeze(0, true);
  calls.agree_to_watch(0, true);
  calls.agree_to_write({memory_kind::parameters, 0}, nullptr);
  calls.abandon();
  CHECK_THROWS_WITH_AS(calls.together([] { throw error("wrong", "mend it"); }), "wrong; mend it", error);
}

TEST_CASE("processes that freeze different layers all get an error") {
  std::atomic<int> failed{0};
  threaded::job job(2);
  job.run([&](process_group& here) {
    try {
      detail::collective_calls(&here).agree_to_freeze(here.rank(), true);
    } catch (const error& cause) {
      failed += cause.wrong() == "ranks 0 and 1 do not agree on the layer: 0 and 1";
    }
  });
  CHECK(failed == 2);
}

TEST_CASE("a call that fails in one process fails in all with the first cause") {
  std::atomic<int> failed{0};
  threaded::job job(2);
  job.run([&](process_group& here) {
    const detail::collective_calls calls(&here);
    try {
      calls.together([&] {
        if (here.rank() == 1) throw error("wrong", "mend it");
        for (;; std::this_thread::yield()) here.begin({.action = "begin"});  // until it is interrupted
      });
    } catch (const error& cause) {
      failed += cause.wrong() == "wrong";
    }
  });
  CHECK(failed == 2);
}

TEST_CASE("each kind of pass is one kind of collective call") {
  using enum pass_kind;
  collective_kind found[] = {detail::collective_kind_of(train),    detail::collective_kind_of(accumulate),
                             detail::collective_kind_of(measure),  detail::collective_kind_of(diagnose),
                             detail::collective_kind_of(evaluate), detail::collective_kind_of(predict)};
  for (int i = 0; i < 6; ++i)
    for (int k = 0; k < i; ++k) CHECK(found[i] != found[k]);
}
