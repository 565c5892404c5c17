#include <gpipe/runtime/step/step_input.hpp>

#include <doctest/doctest.h>

#include <span>
#include <vector>

#include <gpipe/layer.hpp>
#include <gpipe/make_plan.hpp>
#include <gpipe/model/in_bf16.hpp>

using namespace gpipe;
using namespace gpipe::detail;

namespace {

struct net : model<input<float, 2>, linear<3>, softmax_cross_entropy> {};
struct headless : model<input<float, 2>, linear<3>> {};

template <class Model>
struct calls {
  explicit calls(const plan_options& options) : plan(make_plan(network_of<Model>, options)) {}
  step_plan plan;
  step_context step;
  detail::step_input input{network_of<Model>, plan, step};
};

const std::vector<float> x(26, 0.5F);
const std::vector<std::int32_t> labels(13, 1);
batch of(int samples) {
  const auto rows = static_cast<std::size_t>(samples);
  return batch(samples).with("inputs", std::span(x).first(2 * rows)).with("labels", std::span(labels).first(rows));
}

}  // namespace

TEST_CASE("a call sets the whole step, and nothing of the last call is left") {
  calls<net> it({.micro_batches = 2, .micro_batch_size = 2, .replicas = 2});
  tensor_rows rows;
  it.input.begin(pass_kind::predict, of(3), {.samples_before = 1, .predicted = &rows, .captured = true});
  CHECK(it.step.predicted == &rows);
  CHECK(it.step.captured);
  it.step.begin(pass_kind::diagnose);
  const auto before = now_ns();
  it.input.begin(pass_kind::train, of(5), {.samples_before = 8});
  CHECK(it.step.began_ns >= before);
  CHECK(it.step.rows.samples == 5);
  CHECK(it.step.per_micro_batch == 2);
  CHECK(it.step.samples_before == 8);
  CHECK(it.step.kind == pass_kind::train);
  CHECK(it.step.repeated == pass_kind::train);
  CHECK(it.step.predicted == nullptr);
  CHECK(!it.step.captured);
  it.input.begin(pass_kind::evaluate, of(1));
  CHECK(it.step.rows.samples == 1);
  CHECK(it.step.samples_before == 0);
  CHECK((!it.step.trains() && !it.step.is_timed()));
}

TEST_CASE("samples are dealt in order, the next ceil(N / (R M)) to each micro-batch") {  // as the guide says
  const auto dealt = [](calls<net>& it, int samples) {
    it.input.begin(pass_kind::train, of(samples));
    return std::vector<int>{it.step.samples(0), it.step.samples(1), it.step.samples(2), it.step.samples(3)};
  };
  calls<net> four({.micro_batches = 4, .micro_batch_size = 4});
  CHECK(dealt(four, 8) == std::vector{2, 2, 2, 2});
  CHECK(dealt(four, 9) == std::vector{3, 3, 3, 0});
  CHECK(dealt(four, 13) == std::vector{4, 4, 4, 1});
  CHECK(dealt(four, 3) == std::vector{1, 1, 1, 0});
  calls<net> copies({.micro_batches = 2, .micro_batch_size = 4, .replicas = 2});
  CHECK(dealt(copies, 9) == std::vector{3, 3, 3, 0});
}

TEST_CASE("training without enough samples, without a loss or without a backward is rejected") {
  calls<net> it({.micro_batches = 2, .micro_batch_size = 2, .replicas = 2});
  it.input.require_training();
  CHECK_THROWS_WITH_AS(it.input.begin(pass_kind::train, of(1)),
                       "a batch of 1 sample is too small for 2 replicas; give at least one sample to each, or choose "
                       "fewer replicas",
                       error);
  it.input.begin(pass_kind::evaluate, of(1));
  CHECK_THROWS_WITH_AS(it.input.begin(pass_kind::train, batch(0)), doctest::Contains("the batch is empty"), error);
  calls<net> forward({.schedule = schedule_kind::forward_only});
  forward.input.require_loss();
  CHECK_THROWS_WITH_AS(forward.input.require_training(), doctest::Contains("has no backward"), error);
  CHECK(forward.step.forward_only);
  forward.input.begin(pass_kind::evaluate, of(1));
  CHECK(forward.step.is_timed());
  calls<headless> none({});
  CHECK_THROWS_WITH_AS(none.input.require_training(), doctest::Contains("the model has no loss"), error);
}

TEST_CASE("floats for a model in bf16 are rounded into a buffer of the step_input") {
  calls<in_bf16<net>> it({.micro_batches = 2, .micro_batch_size = 2, .precision = precision::bf16});
  it.input.begin(pass_kind::evaluate, of(4));
  CHECK(it.step.rows.inputs != reinterpret_cast<const std::byte*>(x.data()));
  CHECK(static_cast<float>(reinterpret_cast<const bf16*>(it.step.rows.inputs)[7]) == 0.5F);
}
