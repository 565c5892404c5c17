#include <gpipe/plan/cost.hpp>

#include <doctest/doctest.h>

using namespace gpipe;

namespace {

constexpr parameter weight{"weight", {2}};
constexpr row free_row = [] {
  row r;
  r.cost = {.forward = 120, .backward_input = 240, .backward_parameters = 600, .bytes = 40};
  return r;
}();
constexpr row trained_row = [] {
  row r = free_row;
  r.parameters = &weight;
  r.parameter_count = 1;
  return r;
}();
constexpr device_rates rates{.flops_per_ns = 60, .bytes_per_ns = 20, .launch_ns = 100};

// A kernel's start, then samples times (2 ns for the operations and 2 ns for the bytes).
static_assert(cost_of(free_row, 1, false, rates).forward == 100'000 + 4'000);
static_assert(cost_of(free_row, 10, false, rates).forward == 100'000 + 40'000);
static_assert(cost_of(free_row, 10, false, rates).backward == 100'000 + 60'000);
// Parameters are a kernel more, and a recompute a forward more.
static_assert(cost_of(trained_row, 10, false, rates).backward == 160'000 + 100'000 + 100'000);
static_assert(cost_of(trained_row, 10, true, rates).backward == 360'000 + 140'000);
static_assert(cost_of(trained_row, 10, true, rates).forward == 140'000);

constexpr row nothing{};
static_assert(cost_of(nothing, 1000, false, rates).forward == 100'000);

}  // namespace

TEST_CASE("a cost grows with the samples") {
  CHECK(cost_of(trained_row, 64, true).forward > cost_of(trained_row, 8, true).forward);
}
