// The library's half of the test train/checkpoint/torch_steps. In each folder that torch_steps.py has prepared it loads
// PyTorch's model, trains five steps and compares; then it trains a model of its own, which PyTorch loads.

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <fstream>
#include <iostream>
#include <string>
#include <vector>

#include <gpipe/core/descriptions/optimizer.hpp>
#include <gpipe/layer/activation/gelu.hpp>
#include <gpipe/layer/activation/relu.hpp>
#include <gpipe/layer/linear/linear.hpp>
#include <gpipe/layer/loss/softmax_cross_entropy.hpp>
#include <gpipe/layer/normalization/layer_norm.hpp>
#include <gpipe/layer/shape/add.hpp>
#include <gpipe/make_plan.hpp>
#include <gpipe/tools/names/hugging_face.hpp>
#include <gpipe/train/data/dataset.hpp>
#include <gpipe/train/trainer.hpp>
#include <gpipe/train/trainer_checkpoints.hpp>

using namespace gpipe;

namespace {

template <class T>
struct sequential
    : model<input<T, 8>, linear<12>, layer_norm, gelu, linear<12>, relu, linear<5>, softmax_cross_entropy> {};
template <class T>
struct gpt2
    : model<input<T, 8>, named<"wte", linear<12>>,
            named<"h", repeat<2, residual<named<"ln_2", layer_norm>,
                                          named<"mlp", named<"c_fc", linear<24>>, gelu, named<"c_proj", linear<12>>>>>>,
            named<"ln_f", layer_norm>, named<"lm_head", linear<5>>, softmax_cross_entropy> {};

int failures = 0;

void compare(const std::string& what, double mine, double theirs, double tolerance) {
  if (std::abs(mine - theirs) <= tolerance) return;
  if (++failures < 20) std::printf("%s: %.17g, but PyTorch has %.17g\n", what.c_str(), mine, theirs);
}

template <class T>
dataset data() {
  std::vector<T> x;
  std::vector<std::int32_t> y;
  for (int i = 0; i < 128; ++i) x.push_back(static_cast<T>((i * 7 % 13) / 5.0 - 1));
  for (int i = 0; i < 16; ++i) y.push_back(i * 3 % 5);
  return dataset{}.with("inputs", 8, x).with("labels", 1, y);
}

template <class Training>
std::vector<double> five_steps(Training& training, const dataset& all) {
  std::vector<double> losses;
  for (int i = 0; i < 5; ++i)
    for (const batch& next : all.batches(16)) losses.push_back(training.step(next).loss);
  return losses;
}

template <class T, class Net, class Optimizer>
void compare_case(const std::string& folder, const Optimizer& optimizer, const name_map& names) {
  constexpr double tolerance = sizeof(T) == 8 ? 1e-11 : 1e-5;
  const dataset all = data<T>();
  std::vector<double> expected(5);
  std::ifstream file(folder + "/losses");
  for (double& loss : expected) file >> loss;
  if (!file) throw error("it has no five losses", "", {.file = folder + "/losses"});
  for (const int stages : {1, 3}) {
    const plan_options plan{.stages = stages, .micro_batches = 4, .micro_batch_size = 4};
    trainer<Net, Optimizer> training(plan, optimizer), theirs(plan, optimizer), ours(plan, optimizer, {.seed = 9});
    training.load(folder + "/first.safetensors", {.names = names});
    training.save(folder + "/again.safetensors", {.names = names});
    const std::vector<double> losses = five_steps(training, all);
    for (std::size_t i = 0; i < 5; ++i)
      compare(folder + ": the loss of step " + std::to_string(i), losses[i], expected[i], tolerance);
    theirs.load(folder + "/last.safetensors", {.names = names});
    for (const auto& p : theirs.parameters()) {
      const auto values = theirs.array(p.path).template values<T>(), mine = training.array(p.path).template values<T>();
      for (std::size_t i = 0; i < values.size(); ++i)
        compare(folder + ": " + p.path, static_cast<double>(mine[i]), static_cast<double>(values[i]), tolerance);
    }
    ours.save(folder + "/ours_first.safetensors", {.names = names});
    std::ofstream out(folder + "/ours_losses");
    out.precision(17);
    for (const double loss : five_steps(ours, all)) out << loss << '\n';
    ours.save(folder + "/ours_last.safetensors", {.names = names});
  }
}

template <class T, class Net>
void compare_net(const std::string& folder, const name_map& names) {
  compare_case<T, Net>(folder + "sgd", sgd{.learning_rate = 0.05, .momentum = 0.9}, names);
  compare_case<T, Net>(folder + "adam", adam{.learning_rate = 0.01}, names);
}

}  // namespace

int main(int count, char** words) {
  if (count != 2) return std::puts("torch_steps FOLDER, which torch_steps.py has prepared"), 2;
  const std::string folder = words[1];
  try {
    compare_net<float, sequential<float>>(folder + "/sequential-float32-", {});
    compare_net<double, sequential<double>>(folder + "/sequential-float64-", {});
    compare_net<float, gpt2<float>>(folder + "/gpt2-float32-", hugging_face_gpt2("transformer."));
    compare_net<double, gpt2<double>>(folder + "/gpt2-float64-", hugging_face_gpt2("transformer."));
  } catch (const std::exception& found) {
    std::cout << found.what() << '\n';
    return 1;
  }
  return failures > 0;
}
