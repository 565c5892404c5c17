// sanitizers: address

#include <gpipe/runtime/run_report.hpp>

#include <doctest/doctest.h>

#include <thread>

#include <gpipe/layer.hpp>
#include <gpipe/make_plan.hpp>
#include <gpipe/model/model.hpp>

#if defined(__linux__)
#include <sched.h>
#endif

using namespace gpipe;
using namespace gpipe::detail;

namespace {

struct net : model<input<float, 4>, linear<4>, gelu, linear<2>, softmax_cross_entropy> {};
const step_plan plan = make_plan(
    network_of<net>, {.stages = 2, .micro_batches = 2, .micro_batch_size = 2, .workers = 1, .replicas = 2}, {2});

}  // namespace

TEST_CASE("a run_report has a line for each stage of each replica, and a recorder for each worker") {
  run_report report(network_of<net>, plan, 2, 4);
  REQUIRE(report.stages().size() == 4);
  CHECK(report.stages()[3].replica == 1);
  CHECK(report.stages()[3].stage == 1);
  CHECK(report.stages()[3].worker == 1);
  CHECK(report.stages()[0].parameters == 4 * 4 + 4);
  REQUIRE(report.workers().size() == 2);
  CHECK(report.workers()[1].name() == "replica 1, worker 0");
  CHECK(report.of_worker(1, 0) == &report.workers()[1]);
  CHECK(run_report(network_of<net>, plan, 2, 0).of_worker(1, 0) == nullptr);
}

TEST_CASE("a reset clears times and events, and one process shares its report with itself") {
  run_report report(network_of<net>, plan, 2, 4);
  const broadcast alone(plan, nullptr);
  for (stage_report& r : report.stages()) r.step_ns = 7, r.steps = 1;
  report.of_worker(0, 0)->record({1, 2, action_kind::forward, 0, 0});
  report.share_stages(alone);
  report.share_workers(alone);
  CHECK(report.stages()[2].step_ns == 7);
  CHECK(report.workers()[0].events().size() == 1);
  report.reset_events();
  CHECK(report.workers()[0].events().empty());
  CHECK(report.stages()[2].steps == 1);
  report.reset();
  CHECK(report.stages()[2].steps == 0);
}

TEST_CASE("a profile of which a layer was not timed is rejected") {
  measured_profile found{{}, 2};
  for (int s = 0; s < 2; ++s) detail::share_measured(network_of<net>, plan, {plan, nullptr}, s, found);
  REQUIRE(found.layers.size() == 4);
  for (measured_layer& line : found.layers) line.forward_ns = 5;
  CHECK_NOTHROW(detail::require_measured(plan, found));
  found.layers[2].forward_ns = -1;
  CHECK_THROWS_WITH_AS(detail::require_measured(plan, found), doctest::Contains("no full micro-batch was timed"),
                       error);
}

#if defined(__linux__)
TEST_CASE("a report says to how many cores its process is bound") {
  if (cores::of_machine() < 2) return;
  cpu_set_t all, one;
  REQUIRE(sched_getaffinity(0, sizeof all, &all) == 0);
  const auto allowed = static_cast<unsigned>(CPU_COUNT(&all));
  CHECK(cores::allowed() == allowed);
  CHECK(run_report(network_of<net>, plan, 2, 0).stages()[0].bound_to ==
        (allowed == cores::of_machine() ? 0 : static_cast<int>(allowed)));
  CPU_ZERO(&one);
  CPU_SET(static_cast<std::size_t>(sched_getcpu()), &one);
  std::thread([&] {  // another thread, so that this one stays free
    REQUIRE(sched_setaffinity(0, sizeof one, &one) == 0);
    CHECK(cores::allowed() == 1);
    run_report report(network_of<net>, plan, 2, 0);
    CHECK(report.stages()[3].bound_to == 1);
    CHECK(report.stages()[3].process_workers == 2);
    CHECK(report.stages()[3].host_bound_to == 0);
    report = run_report(network_of<net>, plan, 2, 0, {.processes = 3, .workers = 4, .cores = 1});
    CHECK(report.stages()[3].host_processes == 3);
    CHECK(report.stages()[3].host_workers == 4);
    CHECK(report.stages()[3].host_bound_to == 1);
    report = run_report(network_of<net>, plan, 2, 0, {.processes = 3, .cores = static_cast<int>(cores::of_machine())});
    CHECK(report.stages()[3].host_bound_to == 0);
  })
      .join();
}
#endif

namespace {

struct watched_net : model<input<float, 4>, linear<3>, gelu, linear<2>, softmax_cross_entropy> {};
const step_plan watched_plan =
    make_plan(network_of<watched_net>, {.stages = 2, .micro_batches = 2, .micro_batch_size = 2}, {2});

}  // namespace

TEST_CASE("watched rows have samples only after a call that succeeded") {
  detail::watched_activations watched(network_of<watched_net>, watched_plan, 0);
  const broadcast alone(watched_plan, nullptr);
  CHECK(watched.watched(1) == nullptr);
  detail::watched_rows* const rows = watched.watch(1, true);
  CHECK(watched.watched(1) == rows);
  step_context step;
  step.rows.samples = 3;
  step.per_micro_batch = 2;
  watched.open(step);
  CHECK(rows->outputs.samples() == 0);
  watched.close(step, 0, alone);
  CHECK(rows->outputs.samples() == 3);
  CHECK(rows->outputs.row_bytes(0) == 3 * sizeof(float));
  CHECK(rows->gradients.has_rows(0));
  CHECK(watched.watch(1, false) == nullptr);
  CHECK(watched.watched(1) == nullptr);
}

TEST_CASE("a digest keeps the given number of calls, each with a hash of its data") {
  const broadcast alone(watched_plan, nullptr);
  const auto digest_of = [&](float x) {
    detail::watched_activations watched(network_of<watched_net>, watched_plan, 2);
    const std::vector<float> inputs(4, x);
    step_context step;
    step.rows.samples = step.per_micro_batch = 1;
    step.rows.inputs = reinterpret_cast<const std::byte*>(inputs.data());
    step.rows.fields.resize(detail::index(network_of<watched_net>.field_count));
    for (int call = 0; call < 2; ++call) {
      CHECK(!watched.digest().full());
      watched.open(step);
      watched.close(step, call, alone);
    }
    CHECK(watched.digest().full());
    return watched.digest();
  };
  CHECK(!first_difference(digest_of(1), digest_of(1)));
  CHECK(first_difference(digest_of(1), digest_of(2)).has_value());
}
