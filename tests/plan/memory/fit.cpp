#include <gpipe/plan/memory/fit.hpp>

#include <doctest/doctest.h>

#include "support/chains.hpp"

#include <gpipe/model/model.hpp>

using namespace gpipe;

namespace {

/// Two blocks on two stages.
struct halves {
  static constexpr int stages = 2;
  static constexpr const network& net = network_of<laws::transformer<2, 8, 16, 32>>;
  static constexpr int first[] = {0, net.slot_count / 2, net.slot_count};
  static constexpr stage_view view(int s) { return {net, cut{first, stages}, s}; }
  static constexpr memory_terms terms(int) { return {8, 2, 4, 1, 2}; }
};
constexpr std::int64_t most = [] {
  const auto a = detail::memory_table<halves>.of[0].total(), b = detail::memory_table<halves>.of[1].total();
  return a > b ? a : b;
}();

// One that does not fit does not compile: tests/compile_fail/plan_memory.cpp.
static_assert(detail::each_stage_fits<halves, most>(std::make_integer_sequence<int, 2>{}));

}  // namespace

TEST_CASE("what a stage may take is what it takes, or more") {
  CHECK(detail::each_stage_fits<halves, most + 1>(std::make_integer_sequence<int, 2>{}));
}
