// What share of a core's rate in matrix products does causal attention reach, and how does it compare with torch?

#include "../gemm_peak.hpp"
#include "../measure.hpp"
#include "../peer.hpp"

#include <gpipe/device/host/host.hpp>
#include <gpipe/layer/contract/attention_shape.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <string>
#include <vector>

#include "support/stack_depth.hpp"

namespace {

using namespace gpipe;

constexpr int heads = 4, width = 64, trials = 40;

/// One sample, with rows of q, k and v side by side, [tokens][3][heads][width], as a layer's projection writes them; or
/// one head after the other, [3][heads][tokens][width].
struct problem {
  attention_shape shape;
  std::ptrdiff_t part;
  std::vector<float> qkv, gradients, o, d_o, log_sums;
  host_device::context context = host_device::make_context(0);

  problem(int tokens, bool fused) : shape{1, heads, heads, tokens, tokens, width, true, 0.125, {}, {}, {}, {}} {
    const std::ptrdiff_t row = std::ptrdiff_t{heads} * width, all = row * tokens;
    if (fused) {
      shape.q = shape.k = shape.v = {3 * all, width, 3 * row};
      shape.o = {all, width, row};
      part = row;
    } else {
      shape.q = shape.k = shape.v = shape.o = {all, std::ptrdiff_t{tokens} * width, width};
      part = all;
    }
    const auto numbers = [](std::ptrdiff_t n) {
      std::vector<float> of(static_cast<std::size_t>(n));
      for (std::size_t i = 0; i < of.size(); ++i) of[i] = static_cast<float>(i * 7919 % 1009) / 1009 - 0.5F;
      return of;
    };
    qkv = numbers(3 * all), gradients = numbers(3 * all), o = numbers(all), d_o = numbers(all);
    log_sums = numbers(std::ptrdiff_t{heads} * tokens);
    context.prepare_attention<float>(shape);
  }

  void forward() {
    context.attention<float>(shape, qkv.data(), qkv.data() + part, qkv.data() + 2 * part, nullptr, o.data(),
                             log_sums.data());
  }
  void backward() {
    context.attention_backward<float>(shape, qkv.data(), qkv.data() + part, qkv.data() + 2 * part, nullptr, o.data(),
                                      log_sums.data(), d_o.data(), gradients.data(), gradients.data() + part,
                                      gradients.data() + 2 * part);
  }
  /// Operations of forward, of which a causal mask needs half; backward has 2.5 times as many.
  double work() const { return 2.0 * shape.queries * shape.queries * width * heads; }
};

struct figures {
  double forward, backward, both, over_torch;
};

/// Shares of the rate of products, and torch's time over ours. All alternate in short trials, and the best fifth of
/// each counts: other work on the machine takes the core away in some of them.
figures measure(int tokens, bool fused, const bench::gemm_peak& peak, bench::rival& torch) {
  problem p(tokens, fused);
  const int calls = 1 + static_cast<int>(2e8 / p.work()), theirs = 1 + calls / 4;
  std::vector<double> rates, forward, backward, of_torch;
  for (int i = 0; i <= trials; ++i) {
    const double rate = 1e9 * peak(0.005);
    const double first = bench::timed([&] {
                           for (int call = 0; call < calls; ++call) p.forward();
                         }) /
                         calls;
    const double second = bench::timed([&] {
                            for (int call = 0; call < calls; ++call) p.backward();
                          }) /
                          calls;
    const double third = torch.seconds(std::to_string(tokens), theirs) / theirs;
    if (i == 0) continue;  // the first touches the pages
    rates.push_back(rate), forward.push_back(first), backward.push_back(second), of_torch.push_back(third);
  }
  const double rate = bench::quantile(rates, 0.8), first = bench::quantile(forward, 0.2),
               second = bench::quantile(backward, 0.2);
  return {p.work() / first / rate, 2.5 * p.work() / second / rate, 3.5 * p.work() / (first + second) / rate,
          bench::quantile(of_torch, 0.2) / (first + second)};
}

std::size_t scratch(int tokens) {
  problem p(tokens, true);
  return stack_depth::of([&] { p.forward(), p.backward(); });
}

}  // namespace

int main() {
  bench::print_environment();
  const bench::gemm_peak peak(1);
  const int lengths[] = {128, 512, 2048};
  bench::rival torch("attention/heads.py", "128,512,2048");
  double share = 0, share_fused = 0, product = 1;
  for (const bool fused : {false, true})
    for (const int tokens : lengths) {
      const figures found = measure(tokens, fused, peak, torch);
      std::printf(
          "%-9s T %4d  share of the rate of products: forward %.2f, backward %.2f, both %.2f; over torch %.2f\n",
          fused ? "fused" : "per head", tokens, found.forward, found.backward, found.both, found.over_torch);
      if (tokens == 512) (fused ? share_fused : share) = found.both;
      if (!fused) product *= found.over_torch;
    }
  const std::size_t few = scratch(128), many = scratch(2048);
  std::printf("scratch: %zu bytes of stack for 128 tokens, %zu for 2048\n\n", few, many);
  bench::result("attention.share", share, "ratio");
  bench::result("attention.share.fused", share_fused, "ratio");
  if (std::isfinite(product)) bench::result("attention.over_torch", std::cbrt(product), "ratio");
  bench::result("attention.scratch", static_cast<double>(many) / static_cast<double>(few), "ratio");
}
