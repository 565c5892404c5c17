// A step of GPT-2 on a GPU. Compiled apart from the kernels alone: nvcc takes minutes.

#if GPIPE_WITH_CUDA
#include "gpt2_step.hpp"

#include "../measure.hpp"

#include <gpipe/cuda/cuda.hpp>
#include <gpipe/layer.hpp>
#include <gpipe/make_plan.hpp>
#include <gpipe/model/gpt2.hpp>
#include <gpipe/model/in_bf16.hpp>
#include <gpipe/train.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <vector>

namespace bench {

double seconds_of_gpt2_step(int micro_batches, int micro_batch_size, bool graph) {
  using namespace gpipe;
  constexpr int tokens = 1024;
  const plan_options options{.stages = 1,
                             .micro_batches = micro_batches,
                             .micro_batch_size = micro_batch_size,
                             .precision = precision::bf16,
                             .workers = 1};
  trainer<both_precisions<gpt2<12, 768>>, adamw, cuda_device> training(options, {},
                                                                       {.max_grad_norm = 1, .graph = graph});
  const int samples = micro_batches * micro_batch_size;
  std::vector<std::int32_t> inputs(static_cast<std::size_t>(samples) * tokens), labels(inputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) inputs[i] = labels[i] = static_cast<std::int32_t>(i * 7919 % 50257);
  const auto all = batch(samples).with("inputs", inputs).with("labels", labels);
  const double first = training.step(all).loss;
  for (int i = 0; i < 3; ++i) training.step(all);
  std::vector<double> took;
  double last = 0;
  for (int i = 0; i < 15; ++i) took.push_back(timed([&] { last = training.step(all).loss; }));
  std::printf("loss %.3f, after 19 steps %.3f; steps of %.2f to %.2f ms\n", first, last, 1e3 * quantile(took, 0),
              1e3 * quantile(took, 1));
  return median(took);
}

}  // namespace bench
#endif
