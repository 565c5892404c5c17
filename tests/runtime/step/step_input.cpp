#include <gpipe/runtime/step/step_input.hpp>

#include <doctest/doctest.h>

#include <span>
#include <vector>

#include <gpipe/layer.hpp>
#include <gpipe/model/in_bf16.hpp>

using namespace gpipe;

namespace {

struct net : model<input<float, 2>, linear<3>, softmax_cross_entropy> {};
struct headless : model<input<float, 2>, linear<3>> {};

template <class Model>
struct taken {
  explicit taken(const plan_options& options) : plan(make_plan(network_of<Model>, options)) {}
  run_plan plan;
  step_state step;
  detail::intake in{network_of<Model>, plan, step};
};

const std::vector<float> x(20, 0.5F);
const std::vector<std::int32_t> labels(10, 1);
batch of(int samples) {
  const auto rows = static_cast<std::size_t>(samples);
  return batch(samples).with("inputs", std::span(x).first(2 * rows)).with("labels", std::span(labels).first(rows));
}

}  // namespace

TEST_CASE("a step learns of its batch, and nothing of the last call is left") {
  taken<net> it({.micro_batches = 2, .micro_batch_size = 2, .replicas = 2});
  it.step.commits = it.step.applied = it.step.measured = false;
  it.step.examining = it.step.written = true;
  const auto before = now_ns();
  it.in.to_train(of(5), 8);
  CHECK(it.in.came_ns() >= before);
  CHECK(it.step.rows.samples == 5);
  CHECK(it.step.per_micro_batch == 2);
  CHECK(it.step.samples_before == 8);
  CHECK((it.step.training && it.step.commits && it.step.applied && it.step.measured));
  CHECK((!it.step.examining && !it.step.written));
  it.in.to_run_forward(of(1));
  CHECK(it.step.rows.samples == 1);
  CHECK(it.step.samples_before == 0);
  CHECK((!it.step.training && !it.step.measured));
}

TEST_CASE("what cannot be trained with is refused: too few samples, no loss, a schedule without backward") {
  taken<net> it({.micro_batches = 2, .micro_batch_size = 2, .replicas = 2});
  it.in.require_training();
  CHECK_THROWS_WITH_AS(it.in.to_train(of(1), 0),
                       "a batch of 1 sample is too small for 2 replicas; give at least one sample to each, or choose "
                       "fewer replicas",
                       error);
  it.in.to_run_forward(of(1));
  CHECK_THROWS_WITH_AS(it.in.to_train(batch(0), 0), doctest::Contains("the batch is empty"), error);
  taken<net> forward({.schedule = schedule_kind::forward_only});
  forward.in.require_loss();
  CHECK_THROWS_WITH_AS(forward.in.require_training(), doctest::Contains("has no backward"), error);
  taken<headless> none({});
  CHECK_THROWS_WITH_AS(none.in.require_training(), doctest::Contains("the model has no loss"), error);
}

TEST_CASE("floats for a model in bf16 are rounded into room of its own") {
  taken<in_bf16<net>> it({.micro_batches = 2, .micro_batch_size = 2, .in = precision::bf16});
  it.in.to_run_forward(of(4));
  CHECK(it.step.rows.inputs != reinterpret_cast<const std::byte*>(x.data()));
  CHECK(static_cast<float>(reinterpret_cast<const bf16*>(it.step.rows.inputs)[7]) == 0.5F);
}
