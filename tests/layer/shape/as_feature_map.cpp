#include <gpipe/layer/shape/as_feature_map.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <type_traits>
#include <vector>

#include <gpipe/layer.hpp>
#include <gpipe/make_plan.hpp>
#include <gpipe/model/in_bf16.hpp>
#include <gpipe/plan.hpp>
#include <gpipe/train/trainer.hpp>

using namespace gpipe;

namespace {

using image = feature_map<float, 3, 4, 5>;
static_assert(std::is_same_v<as_feature_map<3, 4, 5>::on<tensor<float, 60>>::output, image>);
static_assert(std::is_same_v<as_pixels::on<image>::output, tensor<float, 20, 3>>);
static_assert(std::is_same_v<flatten::on<image>::output, tensor<float, 60>>);
static_assert(std::is_same_v<reshape<4, 15>::on<image>::output, tensor<float, 4, 15>>);

// The same number of layers in each, because first values depend on a layer's position.
template <class Input, class First, class Last>
using net = model<Input, First, residual<relu, dropout<0>>, stash<"x">, gelu, pop<"x">, multiply, Last, flatten,
                  linear<6>, softmax_cross_entropy>;
using from_row = net<input<float, 60>, reshape<60>, reshape<60>>;
using from_image = net<input_image<float, 3, 4, 5>, as_feature_map<3, 4, 5>, reshape<60>>;
using there_and_back = net<input<float, 60>, as_feature_map<3, 4, 5>, as_pixels>;
static_assert(std::is_same_v<in_bf16<from_image>::entering, feature_map<bf16, 3, 4, 5>>);

template <class Model, int Stages>
std::vector<double> losses_of() {
  trainer train{plan<Model, stages<Stages>, micro_batches<3>, micro_batch_size<2>>{}, adam{.learning_rate = 0.05}};
  std::vector<float> pixels(6 * 60);
  for (std::size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<float>(i * 7 % 11) / 5 - 1;
  const std::vector<std::int32_t> labels{0, 1, 2, 3, 4, 5};
  std::vector<double> losses;
  for (int step = 0; step < 5; ++step)
    losses.push_back(train.step(batch(6).with("inputs", pixels).with("labels", labels)).loss);
  return losses;
}

}  // namespace

TEST_CASE("functions of elements see no difference between a feature map and a row") {
  const auto row = losses_of<from_row, 1>();
  CHECK(row.back() < row.front());
  CHECK(losses_of<from_image, 1>() == row);
  CHECK(losses_of<from_image, 3>() == row);
  CHECK(losses_of<there_and_back, 2>() == row);
}

TEST_CASE("in_bf16 rounds a feature map") {
  const auto rounded = losses_of<in_bf16<from_image>, 2>(), exact = losses_of<from_image, 2>();
  CHECK(rounded != exact);
  CHECK(rounded.back() == doctest::Approx(exact.back()).epsilon(0.05));
}
