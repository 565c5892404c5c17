// sanitizers: address

#include <gpipe/runtime/preflight.hpp>

#include <doctest/doctest.h>

#include <chrono>
#include <cstddef>
#include <limits>
#include <string>

#include <gpipe/device/host/host.hpp>
#include <gpipe/layer.hpp>
#include <gpipe/make_plan.hpp>
#include <gpipe/model/model.hpp>

using namespace gpipe;
using namespace gpipe::detail;
using namespace std::chrono_literals;

// Checks between processes: tests/laws/processes.cpp. Graphs: tests/laws/device/training.cpp.

namespace {

struct net : model<input<float, 4>, linear<4>, linear<2>, softmax_cross_entropy> {};

}  // namespace

TEST_CASE("the deadline must be positive") {
  CHECK(detail::wait_limits_of(1, 5ms).deadline == 5ms);
  CHECK_THROWS_WITH_AS(detail::wait_limits_of(1, 0s),
                       "deadline is 0 s; choose a time longer than that of a micro-batch", error);
}

TEST_CASE("a plan without enough memory is rejected, with all that it needs, at the first stage that does not fit") {
  const step_plan plan = make_plan(network_of<net>, {.stages = 2, .micro_batches = 2, .micro_batch_size = 2});
  const rank_layout here(plan, nullptr);
  const std::int64_t all = plan.memory(0).total() + plan.memory(1).total();
  CHECK_NOTHROW(detail::require_memory(plan, here, all));
  const std::string found = "stage 1: the memory of 2 stages is " + std::to_string(all) +
                            " bytes, but the machine has " + std::to_string(all - 1) + " left";
  CHECK_THROWS_WITH_AS(detail::require_memory(plan, here, all - 1), doctest::Contains(found.c_str()), error);
}

TEST_CASE("records for which there is no memory are refused before they are allocated") {
  CHECK_NOTHROW(detail::require_records("trace_events", 10, 48, 480));
  CHECK_THROWS_WITH_AS(detail::require_records("trace_events", 11, 48, 480),
                       "trace_events is 11, of 48 bytes each, but the machine has 480 bytes left; choose at most 10",
                       error);
  CHECK_THROWS_AS(detail::require_records("digest_calls", std::numeric_limits<std::size_t>::max(), 8, 1 << 30), error);
  const step_plan plan = make_plan(network_of<net>, {.stages = 2});
  const rank_layout here(plan, nullptr);
  const auto refused = [&](const training_options& how, const char* what) {
    CHECK_THROWS_WITH_AS(detail::preflight(gpipe::detail::device_of<host_device>, network_of<net>, plan, 0, how, here),
                         doctest::Contains(what), error);
  };
  refused({.trace_events = std::size_t{1} << 40}, "trace_events is 1099511627776, of ");
  refused({.digest_calls = std::size_t{1} << 42}, "digest_calls is 4398046511104, of ");
  CHECK_NOTHROW(detail::preflight(gpipe::detail::device_of<host_device>, network_of<net>, plan, 0,
                                  {.trace_events = 100, .digest_calls = 3}, here));
}

TEST_CASE("graph needs a device with graphs, one replica, and neither before nor layer_times") {
  const step_plan one = make_plan(network_of<net>, {});
  CHECK_NOTHROW(detail::require_graph(one, {}, true));
  CHECK_NOTHROW(detail::require_graph(make_plan(network_of<net>, {.stages = 2, .micro_batches = 2}), {}, true));
  CHECK_THROWS_WITH_AS(detail::require_graph(make_plan(network_of<net>, {.micro_batches = 2, .replicas = 2}), {}, true),
                       doctest::Contains("the plan has 2 replicas"), error);
  CHECK_THROWS_WITH_AS(detail::require_graph(one, {}, false), doctest::Contains("the device has no graphs"), error);
  CHECK_THROWS_WITH_AS(detail::require_graph(one, {.layer_times = true}, true), doctest::Contains("no .layer_times"),
                       error);
}
