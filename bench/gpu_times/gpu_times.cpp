// How long does each kernel take on the GPU of this machine? The calls are those of gpu_counts, each timed as a CUDA
// graph of many, and torch's answers to the same questions are beside them.

#include "../measure.hpp"
#include "../peer.hpp"

#if GPIPE_WITH_CUDA
#include "../gpu_calls.hpp"
#include "gpt2_step.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <map>
#include <random>
#include <string>
#include <vector>

namespace {

constexpr double trial_seconds = 5e-3;
constexpr int trials = 7;

/// Numbers in [-1, 1), because some units work faster on zeros.
void fill(void* at, std::size_t bytes, bool numbers) {
  static const std::vector<gpipe::bf16> some = [] {
    std::mt19937 random(1);
    std::uniform_real_distribution<float> between(-1, 1);
    std::vector<gpipe::bf16> drawn(std::size_t{4} << 20);
    for (gpipe::bf16& x : drawn) x = gpipe::bf16(between(random));
    return drawn;
  }();
  if (!numbers) return gpipe::cuda::check(cudaMemset(at, 0, bytes), "cudaMemset");
  const std::size_t most = some.size() * sizeof(gpipe::bf16);
  for (std::size_t first = 0; first < bytes; first += most)
    gpipe::cuda::check(cudaMemcpy(static_cast<std::byte*>(at) + first, some.data(), std::min(most, bytes - first),
                                  cudaMemcpyHostToDevice),
                       "cudaMemcpy");
}

struct timing_calls {
  std::string first_part;
  std::map<std::string, double> torch;

  bool wanted(const std::string& name) const {
    const std::size_t common = std::min(name.size(), first_part.size());
    return name.compare(0, common, first_part, 0, common) == 0;
  }
  template <class Call>
  void operator()(const std::string& name, std::uint64_t, const gpipe::cuda::context& c, Call&& call) const {
    if (!wanted(name)) return;
    call(), c.finish();
    const double once = std::max(1e-6, bench::timed([&] { call(), c.finish(); }));
    const int times = std::clamp(static_cast<int>(trial_seconds / once), 1, 500);
    gpipe::cuda::graph repeated;
    c.begin(repeated);
    for (int i = 0; i < times; ++i) call();
    c.end(repeated);
    const auto replay = [&] { c.launch(repeated), c.finish(); };
    replay();
    std::vector<double> took;
    for (int i = 0; i < trials; ++i) took.push_back(bench::timed(replay) / times);
    bench::result("gpu_times." + name, 1e6 * bench::median(took), "us");
    if (const auto found = torch.find(name); found != torch.end())
      bench::result("gpu_times." + name + ".over_torch", found->second / (1e6 * bench::median(took)),
                    "times torch's speed");
  }
};

void run(const std::string& first_part) {
  bench::fill_operand = fill;
  const timing_calls measure{first_part, bench::peer("torch/kernels_on_gpu.py")};
  {
    const gpipe::cuda::context c;
    bench::measure_calls(measure, c);
  }
  if (!measure.wanted("gpt2_")) return;
  const auto torch = bench::peer("torch/gpt2_on_gpu.py");
  for (const bool graph : {false, true}) {
    const std::string name = graph ? "gpt2_124m.step.graph" : "gpt2_124m.step";
    const double seconds = bench::seconds_of_gpt2_step(4, 2, graph);
    bench::result("gpu_times." + name, 1e3 * seconds, "ms");
    for (const auto& [way, of_torch] : torch)
      bench::result("gpu_times." + name + ".over_torch." + way, of_torch / seconds, "times torch's speed");
  }
}

}  // namespace

int main(int number, char** words) {
  bench::print_environment();
  if (gpipe::cuda::gpus() == 0) {
    std::printf("this did not run: no GPU found\n");
    return 0;
  }
  try {
    run(number > 1 ? words[1] : "");
  } catch (const std::exception& failure) {
    std::fprintf(stderr, "gpu_times: %s\n", failure.what());
    return 1;
  }
}
#else
int main() { std::printf("this did not run: it was built without CUDA; configure build/release with GPIPE_CUDA=ON\n"); }
#endif
