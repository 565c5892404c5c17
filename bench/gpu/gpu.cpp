// What share of a GPU's rate does a step reach? Relative to cuBLASLt's peak for one product of the network's size, on
// the same GPU and in the same run. And how much do stages, graphs, actions and recompute cost there?

#include "../networks.hpp"
#include "../peer.hpp"

#if GPIPE_WITH_CUDA
#include <gpipe.hpp>
#include <gpipe/cuda/cuda.hpp>

namespace {

constexpr int width = 4096, blocks = 4, samples = 2048, micro_batches = 8;
using large = bench::residual_mlp<blocks, width>;
/// Layers so small that a step measures the cost of its actions.
using tiny = bench::residual_mlp<8, 16>;

/// Operations per second of a product with the network's largest weight.
template <class T>
double peak() {
  const gpipe::cuda::context c;
  constexpr int rows = samples / micro_batches, n = 4 * width, k = width;
  constexpr std::byte some{0x3f};  // gives 0.75
  const gpipe::cuda::arena a(sizeof(T) * rows * k, some), w(sizeof(T) * gpipe::packed_size(k, n), some);
  const gpipe::cuda::arena y(sizeof(T) * rows * n, some);
  const auto at = [](const gpipe::cuda::arena& memory) { return reinterpret_cast<T*>(memory.data()); };
  c.prepare_multiply<T>(rows, n, k);
  const auto repeat = [&](int times) {
    for (int i = 0; i < times; ++i)
      c.multiply(rows, n, k, static_cast<const T*>(at(a)), static_cast<const T*>(at(w)), at(y), false);
    c.finish();
  };
  repeat(20);
  std::vector<double> took;
  for (int trial = 0; trial < 10; ++trial) took.push_back(bench::timed([&] { repeat(100); }));
  return 100 * 2.0 * rows * n * k / bench::quantile(took, 0.1);
}

struct setting {
  int S = 1;
  gpipe::precision precision = gpipe::precision::float32;
  gpipe::recompute_mode recompute = gpipe::recompute_mode::never;
  int M = micro_batches;
  bool graph = false;
};

/// Seconds per step, the best of several.
template <class Net>
double step(const bench::random_images& data, const setting& as) {
  const int count = static_cast<int>(data.labels.size());
  const gpipe::plan_options options{.stages = as.S,
                                    .micro_batches = as.M,
                                    .micro_batch_size = count / as.M,
                                    .precision = as.precision,
                                    .recompute = as.recompute,
                                    .workers = 1};
  gpipe::trainer<gpipe::both_precisions<Net>, gpipe::adamw, gpipe::cuda_device> training(options, {},
                                                                                         {.graph = as.graph});
  const auto all = data.all();
  for (int i = 0; i < 3; ++i) training.step(all);
  std::vector<double> took;
  for (int i = 0; i < 10; ++i) took.push_back(bench::timed([&] { training.step(all); }));
  return bench::quantile(took, 0.1);
}

void run() {
  using gpipe::precision, gpipe::recompute_mode;
  const bench::random_images data(samples), few(64);
  constexpr double parameters = double{blocks} * 8 * width * width, work = 6 * parameters * samples;
  const auto torch =
      bench::peer("torch/on_gpu.py",
                  gpipe::detail::concat({blocks, " ", width, " ", samples, " ", bench::inputs, " ", bench::classes}));
  for (const precision in : {precision::float32, precision::bf16}) {
    const std::string name = gpipe::name_of(in);
    const double rate = in == precision::bf16 ? peak<gpipe::bf16>() : peak<float>();
    const double one = step<large>(data, {.precision = in}), four = step<large>(data, {.S = 4, .precision = in});
    const double again = step<large>(data, {.precision = in, .recompute = recompute_mode::always});
    std::printf("%s: cuBLASLt %.1f TFLOP/s; a step %.2f ms, of 4 stages %.2f ms, with recompute %.2f ms\n",
                name.c_str(), rate / 1e12, 1e3 * one, 1e3 * four, 1e3 * again);
    bench::result("gpu.share." + name, work / one / rate, "of cuBLASLt's peak");
    bench::result("gpu.stages.4." + name, one / four, "of one stage's throughput");
    bench::result("gpu.recompute." + name, again / one, "times the step");
    if (const auto found = torch.find(name); found != torch.end())
      bench::result("gpu.over_torch." + name, found->second / one, "times torch's throughput");
  }
  // More micro-batches of the same samples are the same work in more actions.
  const double whole = step<tiny>(few, {.M = 1}), parts = step<tiny>(few, {.M = 16});
  const double as_graph = step<tiny>(few, {.M = 16, .graph = true});
  bench::result("gpu.layer_us", 1e6 * (parts - whole) / (15 * 2 * gpipe::layers_of<tiny>),
                "us per layer and direction");
  bench::result("gpu.graph", parts / as_graph, "of the throughput without a graph, tiny layers");
}

}  // namespace

int main() {
  bench::print_environment();
  if (gpipe::cuda::gpus() == 0) {
    std::printf("this did not run: no GPU found\n");
    return 0;
  }
  try {
    run();
  } catch (const gpipe::error& failure) {
    std::fprintf(stderr, "gpu: %s\n", failure.what());
    return 1;
  }
}
#else
int main() { std::printf("this did not run: it was built without CUDA; configure build/release with GPIPE_CUDA=ON\n"); }
#endif
