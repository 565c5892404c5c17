// A step of GPT-2 on the emulated GPU, as a trainer runs it. Compiled apart from the kernels alone: nvcc takes minutes.

#if GPIPE_WITH_CUDA
#include "gpt2_step.hpp"

#include "support/emulated_gpu/counts.hpp"

#include <gpipe/cuda/cuda.hpp>
#include <gpipe/layer.hpp>
#include <gpipe/make_plan.hpp>
#include <gpipe/model/gpt2.hpp>
#include <gpipe/model/in_bf16.hpp>
#include <gpipe/train.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace bench {

std::vector<emulated::launch_counts> launches_of_gpt2_step(int micro_batches, int micro_batch_size) {
  using namespace gpipe;
  constexpr int tokens = 1024;
  emulated::most_blocks = 2;
  const plan_options options{.stages = 1,
                             .micro_batches = micro_batches,
                             .micro_batch_size = micro_batch_size,
                             .precision = precision::bf16,
                             .workers = 1};
  trainer<both_precisions<gpt2<12, 768>>, adamw, cuda_device> training(options, {}, {.max_grad_norm = 1});
  const int samples = micro_batches * micro_batch_size;
  std::vector<std::int32_t> inputs(static_cast<std::size_t>(samples) * tokens), labels(inputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) inputs[i] = labels[i] = static_cast<std::int32_t>(i * 7919 % 50257);
  const auto all = batch(samples).with("inputs", inputs).with("labels", labels);
  emulated::most_blocks = 32;  // all blocks of the sort of 2048 tokens
  emulated::take_counts();
  training.step(all);
  return emulated::take_counts();
}

double predicted_of_gpt2(const std::string& gpu, int micro_batch_size) {
  using namespace gpipe;
  const network& net = network_of<in_bf16<gpt2<12, 768>>>;
  device_spec on = gpu == "a100" ? a100_80gb : h100;
  on.launch_ns = 0;
  std::vector<layer_cost> costs(static_cast<std::size_t>(net.layer_count));
  layer_costs(net, micro_batch_size, on, costs.data());
  double sum = 0;
  for (const layer_cost& c : costs)
    sum += 1e-12 * static_cast<double>(c.forward + c.backward_input + c.backward_parameters);
  return sum;
}

}  // namespace bench
#endif
