#include <gpipe/plan/partition/branch_and_bound.hpp>

#include <doctest/doctest.h>

#include <cstdint>

using namespace gpipe;
using namespace gpipe::detail;
using detail::unlimited;

namespace {

// Two devices, the second twice as fast. The sum is smallest with all work on it; the M - 1 periods need an even share.
constexpr pass_cost costs[] = {{4, 4}, {4, 4}, {4, 4}, {4, 4}, {4, 4}, {4, 4},
                               {2, 2}, {2, 2}, {2, 2}, {2, 2}, {2, 2}, {2, 2}};
constexpr int kinds[] = {0, 1};

struct search_result {
  std::int64_t makespan = 0, both = 0;
  bool balanced = false;  ///< whether a smaller largest stage has the same makespan
};

constexpr search_result search(int micro_batches) {
  const partition_problem p{
      .layers = 6, .stages = 2, .micro_batches = micro_batches, .costs = costs, .kinds = 2, .kind_of = kinds};
  const detail::range_sums all(p, fits_always{});
  detail::dynamic_program programs(all);
  programs.run({}, detail::smallest::sum);  // the first cut
  detail::makespan_search search(all, programs);
  search.search(unlimited, search.makespan() - 1, -1);
  const search_result best{search.makespan(), search.maxima().both};
  return {best.makespan, best.both, search.search(best.both - 1, best.makespan, best.makespan)};
}

static_assert(search(1).makespan == 8 + 20 && search(1).both == 20);
static_assert(search(2).makespan == 8 + 20 + 20 && search(2).balanced);  // 2 | 4 has the same makespan: 16 + 16 + 16
static_assert(search(5).makespan == 16 + 16 + 4 * 16 && search(5).both == 16);

}  // namespace

TEST_CASE("the search finds nothing if there is no better cut") {
  const partition_problem p{.layers = 6, .stages = 2, .micro_batches = 5, .costs = costs, .kinds = 2, .kind_of = kinds};
  const detail::range_sums all(p, fits_always{});
  detail::dynamic_program programs(all);
  programs.run({}, detail::smallest::both);
  detail::makespan_search search(all, programs);
  CHECK_FALSE(search.search(unlimited, 95, -1));
  CHECK(search.search(unlimited, 96, -1));
  CHECK_FALSE(search.search(15, 1000, -1));
}
