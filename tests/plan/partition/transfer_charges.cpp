#include <gpipe/plan/partition/transfer_charges.hpp>

#include <doctest/doctest.h>

#include <cstdint>

using namespace gpipe;

namespace {

constexpr int far_readers[] = {2, 4, 4, 5};
constexpr transfer transfers[] = {{.writer = 0, .readers = far_readers, .reader_count = 4, .time = 10},
                                  {.writer = 1, .time = 1, .gradient = false},
                                  {.writer = 4, .time = 100, .gradient = false}};
constexpr partition_problem problem{.slots = 6, .stages = 1, .transfers = transfers, .transfer_count = 3};

constexpr std::int64_t charge(int begin, int end) {
  const detail::crossings all(problem);
  detail::crossings::meter meter(all, begin);
  for (int l = begin; l < end; ++l) meter.take(l);
  return meter.charge();
}

static_assert(charge(0, 6) == 0);                       // nothing leaves the whole
static_assert(charge(0, 1) == 20);                      // sent once, whoever reads it
static_assert(charge(0, 2) == 21 && charge(0, 3) == 20);
static_assert(charge(0, 5) == 120);                     // its last reader is still behind
static_assert(charge(1, 2) == 1);                       // passed by the skip: nothing
static_assert(charge(2, 3) == 21);                      // reads both
static_assert(charge(3, 4) == 0 && charge(3, 6) == 20);  // received once for three inputs
static_assert(charge(4, 5) == 120 && charge(5, 6) == 120);

}  // namespace

TEST_CASE("transfers that take no time are none") {
  const transfer free{.writer = 0, .time = 0};
  CHECK_FALSE(detail::crossings({.slots = 2, .transfers = &free, .transfer_count = 1}).any());
  CHECK(detail::crossings(problem).any());
}
