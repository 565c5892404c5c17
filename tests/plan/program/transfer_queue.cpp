#include <gpipe/plan/program/transfer_queue.hpp>

#include <doctest/doctest.h>

using namespace gpipe;

TEST_CASE("transfers are ordered by tick, by rank and by micro-batch") {
  detail::transfer_queue transfers;
  for (int i = 0; i < 60; ++i) {
    const int mixed = 7 * i % 60;  // each of 0 ... 59 once
    transfers.put({mixed / 12, mixed / 3 % 4 - 2, {action_kind::send_activation, mixed, mixed % 3, 0}});
  }
  for (int i = 0; i < 60; ++i) {
    CHECK_FALSE(transfers.holds_one_before(i / 12 - 1));
    REQUIRE(transfers.holds_one_before(i / 12));
    CHECK(transfers.take().stage == i);
  }
  CHECK_FALSE(transfers.holds_one_before(1000));
}
