// sanitizers: address

#include <gpipe/runtime/watched_activations.hpp>

#include <doctest/doctest.h>

#include <gpipe/layer.hpp>
#include <gpipe/make_plan.hpp>

using namespace gpipe;
using namespace gpipe::detail;

namespace {

struct net : model<input<float, 4>, linear<3>, gelu, linear<2>, softmax_cross_entropy> {};
const step_plan plan = make_plan(network_of<net>, {.stages = 2, .micro_batches = 2, .micro_batch_size = 2}, {2});

}  // namespace

TEST_CASE("watched rows have samples only after a call that succeeded") {
  detail::watched_activations watched(network_of<net>, plan, 0);
  const broadcast alone(plan, nullptr);
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
  const broadcast alone(plan, nullptr);
  const auto digest_of = [&](float x) {
    detail::watched_activations watched(network_of<net>, plan, 2);
    const std::vector<float> inputs(4, x);
    step_context step;
    step.rows.samples = step.per_micro_batch = 1;
    step.rows.inputs = reinterpret_cast<const std::byte*>(inputs.data());
    step.rows.fields.resize(detail::index(network_of<net>.field_count));
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
