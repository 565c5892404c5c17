// How do convolutions compare with torch's on the same two cores, and what share of the rate of products do they reach?

#include "../gemm_peak.hpp"
#include "../measure.hpp"
#include "../peer.hpp"

#include <gpipe/device/host/host.hpp>
#include <gpipe/layer/contract/convolution_shape.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

namespace {

using namespace gpipe;

constexpr int samples = 8, trials = 15;

struct layer {
  const char* name;
  convolution_shape shape;
  bool first = false;  // its input is data, which needs no gradient
};
// samples, channels, height, width, outputs, kernel, stride, padding
const layer layers[] = {{"3x3     64-64   56", {1, 64, 56, 56, 64, 3, 3, 1, 1, 1, 1}},
                        {"3x3 s2  64-64   56", {1, 64, 56, 56, 64, 3, 3, 2, 2, 1, 1}},
                        {"1x1    256-256  28", {1, 256, 28, 28, 256, 1, 1}},
                        {"1x1     64-256  56", {1, 64, 56, 56, 256, 1, 1}},
                        {"1x7     64-64   28", {1, 64, 28, 28, 64, 1, 7, 1, 1, 0, 3}},
                        {"7x1     64-64   28", {1, 64, 28, 28, 64, 7, 1, 1, 1, 3, 0}},
                        {"1x1     52-52   28", {1, 52, 28, 28, 52, 1, 1}},
                        {"3x3     13-13   28", {1, 13, 28, 28, 13, 3, 3, 1, 1, 1, 1}},
                        {"3x3 s2   3-64  224", {1, 3, 224, 224, 64, 3, 3, 2, 2, 1, 1}, true},
                        {"3x3     16-16   28", {1, 16, 28, 28, 16, 3, 3, 1, 1, 1, 1}},
                        {"3x3     32-32   14", {1, 32, 14, 14, 32, 3, 3, 1, 1, 1, 1}}};

/// One thread's half of the images, as a stage of a pipeline has them.
struct share {
  convolution_shape shape;
  bool first;
  std::vector<float> x, y, dx, dy, weight, forward, backward, gradient;
  host_device::context context = host_device::make_context(0);

  explicit share(const layer& of) : shape(of.shape), first(of.first) {
    shape.samples = samples / 2;
    const auto numbers = [](std::size_t n) {
      std::vector<float> made(n);
      for (std::size_t i = 0; i < n; ++i) made[i] = static_cast<float>(i * 7919 % 1009) / 1009 - 0.5F;
      return made;
    };
    const auto maps = [](int n, int height, int width, int channels) {
      return static_cast<std::size_t>(n) * static_cast<std::size_t>(height * width) *
             static_cast<std::size_t>(channels);
    };
    x = dx = numbers(maps(shape.samples, shape.in_height, shape.in_width, shape.in_channels));
    y = dy = numbers(maps(shape.samples, shape.out_height(), shape.out_width(), shape.out_channels));
    weight = gradient = numbers(shape.weight_size());
    forward = backward = numbers(convolution_packed_size(shape));
    context.prepare_convolution<float>(shape);
  }
  /// A step: packing the weight, the output, and both gradients.
  void step() {
    const float* none = nullptr;
    context.pack_convolution(shape, weight.data(), forward.data());
    context.convolve<float>(shape, x.data(), forward.data(), none, y.data());
    if (!first) {
      context.pack_convolution_backward(shape, weight.data(), backward.data());
      context.convolve_backward_input<float>(shape, dy.data(), backward.data(), dx.data());
    }
    context.convolve_backward_weight<float>(shape, x.data(), dy.data(), gradient.data());
  }
  /// Operations of a step, taps on the padding included.
  double work() const {
    return 2.0 * static_cast<double>(shape.weight_size()) * shape.out_height() * shape.out_width() * shape.samples *
           (first ? 2 : 3);
  }
};

}  // namespace

int main() {
  bench::print_environment();
  const bench::gemm_peak peak(2);
  bench::rival torch("conv/torch_conv.py", std::to_string(samples));
  double product = 1, wide = 1, lowest = 1e9, peaks = 1;
  int windows = 0;
  for (std::size_t i = 0; i < std::size(layers); ++i) {
    share shares[] = {share(layers[i]), share(layers[i])};
    const int calls = 1 + static_cast<int>(1e10 / shares[0].work());
    std::vector<double> ours, theirs, rates;
    for (int trial = 0; trial <= trials; ++trial) {
      const double rate = 1e9 * peak(0.01);
      const double mine = bench::timed([&] {
                            const auto run = [&](share& of) {
                              for (int call = 0; call < calls; ++call) of.step();
                            };
                            std::thread other([&] { run(shares[1]); });
                            run(shares[0]);
                            other.join();
                          }) /
                          calls;
      double best = 1e9;  // of torch's two orders of memory
      for (const char* order : {"last", "first"})
        best = std::min(best, torch.seconds(std::to_string(i) + "." + order, calls) / calls);
      if (trial > 0) ours.push_back(mine), theirs.push_back(best), rates.push_back(rate);
    }
    const double mine = bench::median(ours), other = bench::median(theirs),
                 of_peak = 2 * shares[0].work() / mine / bench::median(rates), over = other / mine;
    std::printf("%s  %6.1f GFLOP/s, %.2f of the rate of products; over torch %.2f\n", layers[i].name,
                2e-9 * shares[0].work() / mine, of_peak, over);
    peaks *= of_peak;
    product *= over, lowest = std::min(lowest, over);
    if (layers[i].shape.taps() > 1) wide *= over, ++windows;
  }
  std::printf("\n");
  const double count = std::size(layers);
  bench::result("conv.share", std::pow(peaks, 1 / count), "ratio");
  if (!std::isfinite(product)) return 0;
  bench::result("conv.over_torch", std::pow(product, 1 / count), "ratio");
  bench::result("conv.over_torch.windows", std::pow(wide, 1.0 / windows), "ratio");
  bench::result("conv.over_torch.lowest", lowest, "ratio");
}
