// What bounds the time of each kernel on a GPU? Counted on an emulated one, and divided by the rates of two real ones.

#include "../result.hpp"

#if GPIPE_WITH_CUDA
#include "../gpu_calls.hpp"
#include "bounds.hpp"
#include "gpt2_step.hpp"

#include <gpipe/cuda/cuda.hpp>

#include <cxxabi.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <regex>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace gpipe;
using emulated::launch_counts;

/// "void gpipe::cuda::detail::attend<float>(...)" is "attend<float>".
std::string short_name(const std::string& mangled) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> plain(abi::__cxa_demangle(mangled.c_str(), nullptr, nullptr, &status),
                                                     std::free);
  std::string text = status == 0 ? plain.get() : mangled;
  text =
      std::regex_replace(text, std::regex("\\b(gpipe|cub|thrust|cuda|std|detail|for_each|[A-Z]+_\\w+)::|^void "), "");
  text = std::regex_replace(text, std::regex("\\(anonymous namespace\\)::|<unnamed>::"), "");
  if (const auto at = text.find("static_kernel<"); at == 0) {
    const auto f = text.find("op_wrapper_t<long, ");
    text = "each " + (f == text.npos ? text : text.substr(f + 19));
  }
  return text.substr(0, 44);
}

/// The bound times of a call's launches, added up, and what they move and wait for.
struct sums {
  double seconds[2]{}, tensor_seconds[2]{}, sectors = 0, needed = 0, wavefronts = 0, conflicts = 0;
  int launches = 0;
};

bench::register_table registers;

/// Seconds on each GPU.
std::array<double, 2> bounds_of(const launch_counts& c) {
  return {bench::bound_of(c, bench::models[0]).seconds, bench::bound_of(c, bench::models[1]).seconds};
}

sums print(const std::vector<launch_counts>& launches) {
  sums all;
  for (const launch_counts& c : launches) {
    ++all.launches;
    if (c.m != 0) std::printf("  %-44s", gpipe::detail::concat({"product ", c.m, " x ", c.n, " x ", c.k}).c_str());
    else {
      const double issued = static_cast<double>(c.issued),
                   per_block = static_cast<double>(c.rounds) / static_cast<double>(c.ran);
      std::printf("  %-44s %6llu x %4llu %8.0f %5.2f %5.2f %5.2f %5.0f", short_name(c.kernel).c_str(),
                  static_cast<unsigned long long>(c.blocks), static_cast<unsigned long long>(c.threads),
                  issued / static_cast<double>(c.ran),
                  static_cast<double>(c.sectors) / std::max(1.0, static_cast<double>(c.needed_sectors)),
                  static_cast<double>(c.conflicts) / std::max(1.0, static_cast<double>(c.wavefronts)),
                  static_cast<double>(c.divergent) / issued, per_block);
      all.sectors += c.scale() * static_cast<double>(c.sectors);
      all.needed += c.scale() * static_cast<double>(c.needed_sectors);
      all.wavefronts += c.scale() * static_cast<double>(c.wavefronts);
      all.conflicts += c.scale() * static_cast<double>(c.conflicts);
    }
    for (int m = 0; m < 2; ++m) {
      const bench::gpu_model& on = bench::models[m];
      const bench::bound b = bench::bound_of(c, on);
      all.seconds[m] += b.seconds, all.tensor_seconds[m] += b.tensor_seconds;
      const int held = c.m != 0 ? 0 : bench::occupancy(c, on, registers.of(c, on));
      if (c.m == 0) std::printf(" | %2d", held);
      std::printf(" %9.1f us %-7s", 1e6 * b.seconds, bench::resources[b.resource]);
    }
    std::printf("\n");
  }
  return all;
}

std::string first_part;  // of the names of figures that are wanted; empty for all

/// Whether a figure, or one of a group of figures, is wanted: "softmax" and "softmax.forward" are both of "softmax".
bool wanted(const std::string& name) {
  const std::size_t common = std::min(name.size(), first_part.size());
  return name.compare(0, common, first_part, 0, common) == 0;
}

/// Counts what a call launches, and prints and records it under a name.
struct counting_calls {
  static bool wanted(const std::string& name) { return ::wanted(name); }
  template <class Call>
  void operator()(const std::string& name, std::uint64_t most, const gpipe::cuda::context& c, Call&& call) const {
    if (!wanted(name)) return;
    emulated::most_blocks = most;
    emulated::take_counts();
    call();
    c.finish();
    std::printf("%s\n", name.c_str());
    const sums found = print(emulated::take_counts());
    for (int m = 0; m < 2; ++m)
      bench::result("gpu_counts." + name + "." + bench::models[m].name, 1e6 * found.seconds[m], "us, a bound");
    for (int m = 0; m < 2; ++m)
      if (found.tensor_seconds[m] > 0)
        bench::result("gpu_counts." + name + ".tensor." + bench::models[m].name,
                      found.tensor_seconds[m] / found.seconds[m], "of the bound");
    if (found.needed > 0)
      bench::result("gpu_counts." + name + ".sectors", found.sectors / found.needed, "of those needed");
    if (found.wavefronts > 0)
      bench::result("gpu_counts." + name + ".conflicts", found.conflicts / found.wavefronts, "of all wavefronts");
  }
};

/// The launches from one launch of a kernel to the next, for its third one: those of a block, which repeats. Prints
/// them in their order.
int launches_of_block(const std::vector<launch_counts>& step, const std::string& kernel) {
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < step.size(); ++i)
    if (step[i].kernel.find(kernel) != std::string::npos) found.push_back(i);
  if (found.size() < 4) return 0;
  const std::vector<launch_counts> block(step.begin() + static_cast<std::ptrdiff_t>(found[2]),
                                         step.begin() + static_cast<std::ptrdiff_t>(found[3]));
  std::printf("a block, from %s on\n", kernel.c_str());
  print(block);
  return static_cast<int>(block.size());
}

/// GPT-2's step of 8 samples in 4 micro-batches. Only those of 1 and of 2 run: each further one adds the difference.
void count_step() {
  if (!wanted("gpt2_")) return;
  struct share {
    double seconds[2]{}, launches = 0;
    void add(const launch_counts& c, double times) {
      const auto found = bounds_of(c);
      for (int m = 0; m < 2; ++m) seconds[m] += times * found[m];
      launches += times;
    }
  };
  const auto one = bench::launches_of_gpt2_step(1, 2), two = bench::launches_of_gpt2_step(2, 2);
  share all;
  std::map<std::string, share> of_kernel;
  const auto add = [&](const std::vector<launch_counts>& step, double times) {
    for (const launch_counts& c : step) {
      all.add(c, times);
      of_kernel[c.m != 0 ? "products by cuBLASLt" : short_name(c.kernel)].add(c, times);
    }
  };
  add(one, -2), add(two, 3);
  std::vector<std::pair<double, std::string>> order;
  for (const auto& [name, part] : of_kernel) order.emplace_back(-part.seconds[0], name);
  std::sort(order.begin(), order.end());
  std::printf("gpt2_124m.step, 4 micro-batches of 2 x 1024 tokens: launches, A100 and H100\n");
  for (const auto& [time, name] : order) {
    const share& part = of_kernel[name];
    std::printf("  %-44s %6.0f %9.2f ms %9.2f ms\n", name.c_str(), part.launches, 1e3 * part.seconds[0],
                1e3 * part.seconds[1]);
  }
  for (int m = 0; m < 2; ++m)
    bench::result(std::string("gpu_counts.gpt2_124m.step.") + bench::models[m].name, 1e3 * all.seconds[m],
                  "ms, a bound");
  for (int m = 0; m < 2; ++m) {
    double counted = 0;
    for (const launch_counts& c : one) counted -= bounds_of(c)[m];
    for (const launch_counts& c : two) counted += bounds_of(c)[m];
    bench::result(std::string("gpu_counts.gpt2_124m.predicted.") + bench::models[m].name,
                  bench::predicted_of_gpt2(bench::models[m].name, 2) / counted, "of a micro-batch's counts");
  }
  bench::result("gpu_counts.gpt2_124m.micro_batch", static_cast<double>(two.size() - one.size()), "launches");
  bench::result("gpu_counts.gpt2_block.forward", launches_of_block(one, "attend"), "launches");
  bench::result("gpu_counts.gpt2_block.backward", launches_of_block(one, "differentiate_keys"), "launches");
}

void run() {
  const gpipe::cuda::context c;
  std::printf(
      "A launch's kernel, blocks x threads; instructions of a block; sectors over needed; conflicts over "
      "wavefronts; share without all lanes;\nrounds of a block that load; then for A100 and H100 the blocks that "
      "a multiprocessor holds, the bound, and what sets it.\nProducts by cuBLASLt count as %.1f of the tensor "
      "cores' rate.\n\n",
      bench::product_share);
  bench::measure_calls(counting_calls{}, c);
  count_step();
}

}  // namespace

int main(int number, char** words) {
  setenv("EMULATED_COUNTS", "1", 1);  // before the first kernel
  if (number > 1) first_part = words[1];
  try {
    run();
  } catch (const std::exception& failure) {
    std::fprintf(stderr, "gpu_counts: %s\n", failure.what());
    return 1;
  }
}
#else
int main() { std::printf("this did not run: it needs nvcc, python3, the tests and a processor of x86-64\n"); }
#endif
