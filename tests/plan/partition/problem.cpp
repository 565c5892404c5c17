#include <gpipe/plan/partition/problem.hpp>

#include <doctest/doctest.h>

using namespace gpipe;
using namespace gpipe::detail;

namespace {

constexpr int readers[] = {2, 5};
constexpr transfer chain{.writer = 3, .time = 7},
    skip{.writer = 1, .readers = readers, .reader_count = 2, .time = 7, .gradient = false};
static_assert(chain.reader(0) == 4 && chain.last_reader() == 4 && chain.charge() == 14);
static_assert(skip.reader(0) == 2 && skip.last_reader() == 5 && skip.charge() == 7);

constexpr auto one = [](int, int) { return true; };
constexpr auto each = [](int stage, int, int) { return stage == 0; };
static_assert(!detail::limits_stages<decltype(one)> && detail::limits_stages<decltype(each)>);
static_assert(detail::stage_fits(one, 1, 0, 1) && !detail::stage_fits(each, 1, 0, 1));

}  // namespace

TEST_CASE("a stage has the costs of its kind of device") {
  const pass_cost costs[] = {{1, 2}, {3, 4}, {10, 20}, {30, 40}};  // two layers on two kinds
  const int kinds[] = {1, 0};
  const partition_problem p{.layers = 2, .stages = 2, .costs = costs, .kinds = 2, .kind_of = kinds};
  CHECK(p.costs_on(0)[1].backward == 40);
  CHECK(p.costs_on(1)[1].backward == 4);
  CHECK(partition_problem{.layers = 2, .stages = 2, .costs = costs}.costs_on(1)[0].forward == 1);
}
