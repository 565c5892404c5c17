#include <gpipe/plan/program/simulation.hpp>

#include <doctest/doctest.h>

using namespace gpipe;

namespace {

constexpr link links[] = {{0, 1}, {1, 2}};

/// Stages and links that take as long as each other, four micro-batches.
void require(int stages, stage_times each, link_times on_the_way = {}) {
  const stage_times times[] = {each, each, each};
  const link_times transfers[] = {on_the_way, on_the_way};
  detail::require_times({stages, 4, recompute_mode::never, times, links, stages - 1, transfers});
}

}  // namespace

TEST_CASE("times that are negative or overflow are refused") {
  constexpr auto most = (std::numeric_limits<std::int64_t>::max)();
  CHECK_NOTHROW(require(1, {most / 4, 0, 0, 0}));
  CHECK_THROWS_WITH_AS(require(1, {most / 4, 0, 1, 0}), doctest::Contains("more than 64 bits"), error);
  CHECK_THROWS_WITH_AS(require(3, {most / 8, 0, 0, 0}), doctest::Contains("more than 64 bits"), error);
  CHECK_THROWS_WITH_AS(require(2, {1, -1, 0}), doctest::Contains("stage 0 takes a negative time"), error);
  CHECK_THROWS_WITH_AS(require(2, {1, 1, 0}, {0, -1}), doctest::Contains("link 0 takes a negative time"), error);
}

TEST_CASE("a stage without a time to recompute takes as long as forward") {
  constexpr auto most = (std::numeric_limits<std::int64_t>::max)();
  CHECK_NOTHROW(require(1, {most / 8, 0, 0}));
  CHECK_THROWS_AS(require(1, {most / 8 + 1, 0, 0}), error);
  CHECK_NOTHROW(require(1, {most / 8 + 1, 0, 0, 0}));
}
