// sanitizers: none
// optimize: yes

// Law 6 under a scheduler: channel, barrier and signals of one process, in 10^5 orders of their operations. No wake is
// lost, nothing stops, values keep their order, a failure and a deadline end every wait. A fault in the primitives is
// found, so the law sees what it should. `bash bench/run orders` runs 10^7.

#include <doctest/doctest.h>

#include "support/orders.hpp"

using namespace orders;

TEST_CASE("random orders of two to four threads") {
  const tally found = run_random(60'000);
  CHECK(found.fault == "");
  CHECK(found.orders == 60'000);
}

TEST_CASE("all orders with at most two preemptions") {
  const tally found = run_bounded(2, 6'000);
  CHECK(found.fault == "");
  CHECK(found.orders > 30'000);
}

TEST_CASE_TEMPLATE_DEFINE("a planted fault is found by both", Fault, planted) {
  const tally random = run_random<Fault::value>(20'000), bounded = run_bounded<Fault::value>(2, 6'000);
  INFO("random: ", random.fault, " after ", random.orders, " orders; bounded: ", bounded.fault, " after ",
       bounded.orders);
  CHECK(random.fault != "");
  CHECK(bounded.fault != "");
}
template <plant Fault>
using with = std::integral_constant<plant, Fault>;
TEST_CASE_TEMPLATE_INVOKE(planted, with<plant::lost_notification>, with<plant::missed_sleeper>, with<plant::late_store>,
                          with<plant::late_flag>, with<plant::open_mutex>);
