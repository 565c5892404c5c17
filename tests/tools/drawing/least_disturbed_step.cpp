#include <gpipe/tools/drawing/least_disturbed_step.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <sstream>
#include <string>
#include <vector>

#include <gpipe/layer.hpp>
#include <gpipe/make_plan.hpp>
#include <gpipe/model/model.hpp>

#include "support/svg.hpp"

using namespace gpipe;
using namespace gpipe::detail;

namespace {

struct net : model<input<float, 4>, linear<4>, gelu, linear<4>, gelu, linear<2>, softmax_cross_entropy> {};

std::vector<recorder> two_workers(std::size_t capacity = 1000) {
  std::vector<recorder> workers;
  for (int w = 0; w < 2; ++w) workers.emplace_back(capacity);
  return workers;
}

/// A step that lasts `length` from 100 ms times its number on: worker 0 begins it, and worker 1 ends it.
void take(std::vector<recorder>& workers, int step, std::int64_t length) {
  const std::int64_t begin = step * std::int64_t{100'000'000};
  workers[0].record({begin, begin + length / 2, action_kind::forward, 0, 0, 0, 0, step});
  workers[1].record({begin + length / 2, begin + length, action_kind::backward, 1, 0, 0, 1, step});
}

}  // namespace

TEST_CASE("among undisturbed steps the median of the last twenty is chosen, by the whole length of a step") {
  auto workers = two_workers();
  for (int step = 0; step < 10; ++step) take(workers, step, 50'000'000);             // before the last twenty
  for (int i = 0; i < 20; ++i) take(workers, 10 + i, 1'000'000 * (1 + i * 7 % 20));  // 1 ... 20 ms, mixed
  const recorded_step found = least_disturbed_step(workers);
  CHECK(found.among == 20);
  CHECK(found.length_ns() == 10'000'000);
  CHECK((found.step - 10) * 7 % 20 == 9);
  REQUIRE(found.events.size() == 2);
  for (const trace_event& e : found.events) CHECK(e.step == found.step);

  CHECK(least_disturbed_step(workers, 3).among == 3);
  CHECK(least_disturbed_step(workers, 1).step == 29);
  CHECK(least_disturbed_step(workers, 1000).among == 30);
}

TEST_CASE("a step whose threads had their cores is chosen before all others") {
  auto workers = two_workers();
  const auto disturbed = [&](int step, std::int64_t length, std::int64_t not_running) {
    take(workers, step, length);
    workers[1].record({step * std::int64_t{100'000'000}, step * std::int64_t{100'000'000} + length,
                       action_kind::forward, 1, 1, 0, 1, step, 0, not_running});
  };
  disturbed(1, 20'000'000, 9'000'000);
  disturbed(2, 31'000'000, 1'000'000);
  disturbed(3, 32'000'000, 1'300'000);  // less than a hundredth of a step more
  disturbed(4, 33'000'000, 1'000'000);
  disturbed(5, 10'000'000, 1'400'000);
  CHECK(least_disturbed_step(workers).step == 3);
  CHECK(least_disturbed_step(workers).among == 5);
  CHECK(least_disturbed_step(workers, 1).step == 5);
}

TEST_CASE("fewer steps than twenty: the median of those") {
  auto workers = two_workers();
  for (const int ms : {3, 9, 4}) take(workers, ms, ms * 1'000'000);
  CHECK(least_disturbed_step(workers).length_ns() == 4'000'000);
  CHECK(least_disturbed_step(workers).among == 3);
}

TEST_CASE("events outside of a step are not drawn, and a step that a full recorder has cut off is not chosen") {
  auto workers = two_workers(3);
  for (const int step : {1, 2, 3}) take(workers, step, 1'000'000);
  for (recorder& w : workers) w.clear();
  workers[0].record({0, 90'000'000, action_kind::forward, 0, 0, 0, 0, -1});  // an evaluation
  take(workers, 4, 2'000'000);
  take(workers, 5, 3'000'000);
  take(workers, 6, 1);
  REQUIRE(workers[0].dropped() == 1);  // of step 6; step 5 is the last in the recorder, and might be cut off as well
  const recorded_step found = least_disturbed_step(workers);
  CHECK(found.among == 1);
  CHECK(found.step == 4);
}

TEST_CASE("a step before the evaluation that filled the recorder is whole") {
  auto workers = two_workers(2);
  take(workers, 4, 2'000'000);
  for (int i = 0; i < 5; ++i) workers[0].record({0, 90'000'000, action_kind::forward, 0, 0, 0, 0, -1});
  CHECK(least_disturbed_step(workers).step == 4);
}

TEST_CASE("no step: the error says what to do") {
  CHECK_THROWS_WITH_AS(least_disturbed_step(two_workers()), doctest::Contains("set trace_events"), error);
  CHECK_THROWS_WITH_AS(least_disturbed_step({}), doctest::Contains("no whole step is in the trace"), error);
}

TEST_CASE("the title has the schedule, S, M and the time of the step") {
  const auto title = [](plan_options options, int among) {
    return timeline_title(make_plan(network_of<net>, options),
                          {.step = 113, .among = among, .begin_ns = 5, .end_ns = 12'345'005});
  };
  CHECK(title({.stages = 2, .micro_batches = 4}, 20) ==
        "fill-drain, S = 2, M = 4: step 113 took 12.3 ms, the least disturbed of the last 20");
  CHECK(title({.stages = 4, .micro_batches = 4, .schedule = schedule_kind::zb_v, .replicas = 2}, 1) ==
        "ZB-V, S = 4, M = 4, 2 workers, R = 2: step 113 took 12.3 ms");
}

TEST_CASE("the drawing of a training is that of its least disturbed step, with its title") {
  auto workers = two_workers();
  for (const int ms : {8, 2, 4}) take(workers, ms, ms * 1'000'000);
  std::ostringstream out;
  const step_plan plan = make_plan(network_of<net>, {.stages = 2, .micro_batches = 4});
  write_timeline(out, plan, workers);
  const laws::svg drawing(out.str());
  CHECK(drawing.words("head") ==
        std::vector<std::string>{"fill-drain, S = 2, M = 4: step 4 took 4.00 ms, the least disturbed of the last 3"});
  CHECK(drawing.of("event").size() == 2);
  CHECK(drawing.boxes("backward 0, stage 1: 2.000 to 4.000 ms").size() == 1);

  std::ostringstream named;
  write_timeline(named, plan, workers, {.title = "mine"});
  CHECK(laws::svg(named.str()).words("head") == std::vector<std::string>{"mine"});
}
