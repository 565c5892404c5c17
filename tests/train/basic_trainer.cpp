#include <gpipe/train/basic_trainer.hpp>

#include <doctest/doctest.h>

#include <array>
#include <cstdint>
#include <type_traits>

#include <gpipe/layer.hpp>
#include <gpipe/make_plan.hpp>
#include <gpipe/train/trainer.hpp>

using namespace gpipe;

namespace {

struct narrow : model<input<float, 2>, linear<2>, softmax_cross_entropy> {};
struct deep : model<input<float, 2>, linear<3>, relu, linear<2>, softmax_cross_entropy> {};

/// Trains any model: its type does not appear.
double loss_after_two_steps(basic_trainer& training, int layers) {
  const std::array inputs{1.0F, 0.0F, 0.0F, 1.0F};
  const std::array<std::int32_t, 2> labels{0, 1};
  const auto data = batch(2).with("inputs", inputs).with("labels", labels);
  CHECK(training.net().layer_count == layers);
  CHECK(training.plan().stages() == 2);
  const double first = training.step(data).loss, second = training.step(data).loss;
  CHECK(training.steps() == 2);
  CHECK(second < first);
  return second;
}

}  // namespace

TEST_CASE("a trainer serves without its model's type and its optimizer's") {
  const plan_options two{.stages = 2, .micro_batches = 1, .micro_batch_size = 2};
  trainer<narrow, sgd> small{two, sgd{.learning_rate = 0.1}};
  trainer<deep, adam> large{two, adam{.learning_rate = 0.1}};
  CHECK(loss_after_two_steps(small, 2) > 0);
  CHECK(loss_after_two_steps(large, 4) > 0);
  CHECK_FALSE(std::is_copy_constructible_v<basic_trainer>);
}
