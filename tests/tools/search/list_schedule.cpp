// optimize: yes

#include <gpipe/tools/search/list_schedule.hpp>

#include <doctest/doctest.h>

#include <random>

#include <gpipe/plan/schedule/zb_v.hpp>
#include <gpipe/plan/timetable/timetable.hpp>
#include <gpipe/tools/search/order_search.hpp>
#include <gpipe/tools/search/rules.hpp>
#include <gpipe/tools/search/searched_schedule.hpp>

#include "support/searched_pipelines.hpp"

using namespace gpipe;
using gpipe::detail::list_schedule;
using gpipe::detail::worker_orders;

namespace {

constexpr std::int64_t made_by_rule(const searched_pipeline& of) {
  worker_orders orders(of);
  return list_schedule(of, gradients_first{}, orders).run();
}
// A compiler makes tables, too. With memory for all, the rule is as good as ZB-V.
static_assert(made_by_rule({.workers = 2, .micro_batches = 4, .placed = placement::v}) ==
              timetable(zb_v{}, 4, 4).makespan(1, 1, 1));

// And it searches one, if it is small: 20 moves shorten the rule's to the bound.
constexpr searched_stage unequal[] = {{6, 5, 5, 10, 6}, {5, 6, 4, 10, 6}, {6, 5, 5, 10, 6}};
constexpr std::int64_t bytes[] = {20, 20, 20};
constexpr searched_pipeline three{3, 4, placement::one_each, unequal, nullptr, bytes};
constexpr std::int64_t searched_by_the_compiler(const searched_pipeline& of, int moves) {
  worker_orders orders(of);
  list_schedule(of, gradients_first{}, orders).run();
  gpipe::detail::order_search search(of, 1);
  search.start(orders);
  search.run(moves, lower_bound_of_tables(of), 2);
  return search.makespan();
}
static_assert(made_by_rule(three) == 98 && lower_bound_of_tables(three) == 92);
static_assert(searched_by_the_compiler(three, 20) == 92);

// 1F1B is a rule: backward as soon as it can be, and no more forwards than stages that follow.
struct one_f_one_b_rule {
  std::int64_t operator()(const ready_action& a) const {
    if (a.kind == action_kind::backward_parameters) return 0;
    if (a.kind == action_kind::backward_input) return 1;
    return a.in_flight < a.stages - a.stage ? 2 : -1;
  }
};

}  // namespace

TEST_CASE("a rule of three lines is 1F1B") {
  const ruled_schedule made({.workers = 3, .micro_batches = 4}, one_f_one_b_rule{});
  CHECK(schedule_text(made.table(), 3, 4).find("0F0,0F1,0F2") == 0);
  for (int s = 0; s < 3; ++s) CHECK(made.table().in_flight(3, 4, s) == 3 - s);
  CHECK(made.makespan() == 16);  // 18 in one part: a gradient leaves before the parameter part
}

TEST_CASE("every rule makes a table that ends within the limits") {
  std::mt19937 random(3);
  for (int i = 0; i < 400; ++i) {
    const int workers = 1 + static_cast<int>(random() % 6), M = 1 + static_cast<int>(random() % 9);
    const searches::random_pipeline it(random, workers, M, i % 2 == 0 ? placement::one_each : placement::v);
    detail::random_sequence numbers(random());
    const detail::random_rule rule(it.is, numbers);
    worker_orders orders(it.is);
    const std::int64_t makespan = list_schedule(it.is, rule, orders).run();
    CAPTURE(i);
    for (int w = 0; w < workers; ++w) CHECK(detail::row_holds(it.is, w, orders.row(w), orders.length()));
    // An action that waits for a preferred one begins later than it could.
    CHECK(detail::order_times(it.is).run(orders) <= makespan);
    CHECK(makespan >= lower_bound_of_tables(it.is));
  }
}
