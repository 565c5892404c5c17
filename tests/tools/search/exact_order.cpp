// optimize: yes

#include <gpipe/tools/search/exact_order.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <random>
#include <vector>

#include <gpipe/tools/search/list_schedule.hpp>
#include <gpipe/tools/search/order_search.hpp>
#include <gpipe/tools/search/rules.hpp>

#include "support/searched_pipelines.hpp"

using namespace gpipe;
using gpipe::detail::exact_order;
using gpipe::detail::worker_orders;

namespace {

/// A table by a rule, from which a search begins.
struct known_table {
  worker_orders orders;
  std::int64_t makespan;

  explicit known_table(const searched_pipeline& of) : orders(of) {
    gpipe::detail::list_schedule(of, gradients_first{}, orders).run();
    makespan = gpipe::detail::order_times(of).run(orders);
  }
};

/// Whether the search's table holds and has its makespan.
bool holds(const searched_pipeline& of, const exact_order& search) {
  for (int w = 0; w < of.workers; ++w)
    if (!gpipe::detail::row_holds(of, w, search.best().row(w), search.best().length())) return false;
  return gpipe::detail::order_times(of).run(search.best()) == search.makespan();
}

}  // namespace

TEST_CASE("the search finds the shortest of all tables") {
  std::mt19937 random(1);
  const auto check = [&](int workers, int micro_batches, placement placed, int count) {
    for (int i = 0; i < count; ++i) {
      searches::random_pipeline it(random, workers, micro_batches, placed);
      if (i % 2 == 0)  // links that are slower than the stages
        for (link_times& link : it.transfers) link = {5 * link.forward, 5 * link.back};
      const known_table known(it.is);
      exact_order search(it.is, known.orders, known.makespan);
      CAPTURE(i);
      CAPTURE(workers);
      CHECK(search.run(100000));
      CHECK(search.makespan() == searches::optimum(it.is));
      CHECK(holds(it.is, search));
    }
  };
  check(1, 4, placement::one_each, 100);
  check(2, 2, placement::one_each, 300);
  check(2, 3, placement::one_each, 60);
  check(3, 2, placement::one_each, 60);
  check(1, 2, placement::v, 100);
  check(1, 3, placement::v, 5);
  check(2, 2, placement::v, 2);
}

TEST_CASE("a part of a table is left only for one whose values arrive as early, and whose links are as free") {
  const auto check = [](const std::vector<searched_stage>& stages, const std::vector<link_times>& transfers,
                        const std::vector<std::int64_t>& limits, std::int64_t optimum) {
    const searched_pipeline of{2, 2, placement::v, stages.data(), transfers.data(), limits.data()};
    const known_table known(of);
    exact_order search(of, known.orders, known.makespan);
    CHECK(search.run(100000));
    CHECK(search.makespan() == optimum);
    CHECK(searches::optimum(of) == optimum);
  };
  check({{1, 6, 5, 9, 8}, {5, 7, 1, 11, 2}, {3, 1, 5, 12, 12}, {2, 6, 8, 9, 1}}, {{12, 12}, {12, 12}, {0, 12}, {6, 12}},
        {26, 57}, 118);
  check({{4, 5, 6, 8, 4}, {3, 3, 0, 6, 0}, {5, 4, 1, 6, 0}, {2, 1, 7, 8, 1}}, {{0, 12}, {0, 4}, {0, 0}, {0, 12}},
        {19, 15}, 78);
}

TEST_CASE("from any table, the search proves the optimum that another solver proved") {
  int proven = 0, all = 0;
  for (const auto& it : searches::solved_pipelines()) {
    const known_table known(it->is);
    exact_order search(it->is, known.orders, known.makespan);
    const bool tried_all = search.run(200000);
    CAPTURE(all);
    CHECK(search.makespan() >= it->optimum);
    if (tried_all) CHECK(search.makespan() == it->optimum);
    CHECK(holds(it->is, search));
    proven += tried_all;
    ++all;
  }
  MESSAGE("proven: ", proven, " of ", all);
  REQUIRE(all == 300);
  CHECK(proven == all);
}

TEST_CASE("a search that ends early says so and keeps what it has") {
  const std::vector<std::int64_t> limits(3, 3);
  const searched_pipeline of{3, 5, placement::v, nullptr, nullptr, limits.data()};
  const known_table known(of);
  exact_order search(of, known.orders, known.makespan);
  CHECK(!search.run(10));
  CHECK(search.makespan() <= known.makespan);
  CHECK(holds(of, search));
}
