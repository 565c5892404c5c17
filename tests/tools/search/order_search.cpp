// optimize: yes

#include <gpipe/tools/search/order_search.hpp>

#include <doctest/doctest.h>

#include <random>
#include <vector>

#include <gpipe/plan/program/simulate.hpp>
#include <gpipe/tools/search/searched_schedule.hpp>

#include "support/searched_pipelines.hpp"

using namespace gpipe;
using gpipe::detail::order_times;
using gpipe::detail::worker_orders;

TEST_CASE("the times of orders are those of the simulated programs") {
  std::mt19937 random(2);
  for (int i = 0; i < 200; ++i) {
    const int workers = 1 + static_cast<int>(random() % 5), M = 1 + static_cast<int>(random() % 8);
    const searches::random_pipeline it(random, workers, M, i % 2 == 0 ? placement::one_each : placement::v);
    const ruled_schedule made(it.is, gradients_first{});
    CAPTURE(i);
    CHECK(simulate(made.table(), searches::simulated_pipeline(it.is).input) == made.makespan());
  }
}

TEST_CASE("workers that wait for each other in a circle have no makespan") {
  const searched_pipeline two{.workers = 2, .micro_batches = 2};
  worker_orders orders(two);
  const int input = detail::code_of(action_kind::backward_input, 0);
  const int parameters = detail::code_of(action_kind::backward_parameters, 0), forward = 0;
  const auto set = [&](int worker, std::vector<int> row) {
    for (std::size_t i = 0; i < row.size(); ++i) orders.row(worker)[i] = static_cast<std::uint8_t>(row[i]);
  };
  set(0, {forward, input, parameters, forward, input, parameters});
  set(1, {forward, input, parameters, forward, input, parameters});
  CHECK(order_times(two).run(orders) == 10);
  set(1, {forward, forward, input, parameters, input, parameters});  // F1 waits for stage 0, which waits for I0
  CHECK(order_times(two).run(orders) == -1);
}
