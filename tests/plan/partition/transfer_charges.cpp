#include <gpipe/plan/partition/transfer_charges.hpp>

#include <doctest/doctest.h>

#include <cstdint>

using namespace gpipe;
using namespace gpipe::detail;

namespace {

constexpr int far_readers[] = {2, 4, 4, 5};
constexpr transfer transfers[] = {{.writer = 0, .readers = far_readers, .reader_count = 4, .time = 10},
                                  {.writer = 1, .time = 1, .gradient = false},
                                  {.writer = 4, .time = 100, .gradient = false}};
constexpr partition_problem problem{.layers = 6, .stages = 1, .transfers = transfers, .transfer_count = 3};

constexpr std::int64_t charge(int begin, int end) {
  const detail::transfer_charges all(problem);
  detail::transfer_charges::running_charge charges(all, begin);
  for (int l = begin; l < end; ++l) charges.add(l);
  return charges.charge();
}

static_assert(charge(0, 6) == 0);   // one stage sends nothing
static_assert(charge(0, 1) == 20);  // sent once, for any number of readers
static_assert(charge(0, 2) == 21 && charge(0, 3) == 20);
static_assert(charge(0, 5) == 120);                      // its last reader is still outside
static_assert(charge(1, 2) == 1);                        // the skip passes it: no charge
static_assert(charge(2, 3) == 21);                       // it reads both
static_assert(charge(3, 4) == 0 && charge(3, 6) == 20);  // received once for three inputs
static_assert(charge(4, 5) == 120 && charge(5, 6) == 120);

}  // namespace

TEST_CASE("transfers that take no time are ignored") {
  const transfer free{.writer = 0, .time = 0};
  CHECK_FALSE(detail::transfer_charges({.layers = 2, .transfers = &free, .transfer_count = 1}).any());
  CHECK(detail::transfer_charges(problem).any());
}
