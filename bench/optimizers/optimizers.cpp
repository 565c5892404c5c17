// How close does each optimizer's update come to the machine's memory rate?

#include "../measure.hpp"

#include <gpipe/core/config.hpp>
#include <gpipe/core/descriptions/adafactor.hpp>
#include <gpipe/core/descriptions/lion.hpp>
#include <gpipe/core/descriptions/rmsprop.hpp>
#include <gpipe/device/host/host.hpp>
#include <gpipe/runtime/binding/optimizer_update.hpp>

#include <algorithm>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace gpipe;
using context = host_device::context;

constexpr std::size_t rows = 4096, columns = 2048, elements = rows * columns;  // 32 MiB an array
constexpr int trials = 15;

/// a <- b + 3 c: as many bytes as three arrays have.
struct triad {
  float* a;
  const float *b, *c;
  void operator()(std::ptrdiff_t i) const { a[i] = b[i] + 3 * c[i]; }
};

/// Parameters, gradients and four moments.
struct arrays {
  std::vector<std::vector<float>> all;
  arrays() : all(6, std::vector<float>(elements, 0.5F)) {}
  std::byte* bytes(std::size_t i) { return reinterpret_cast<std::byte*>(all[i].data()); }
};

/// Bytes read and written for each element, over the time, over the triad's: medians of pairs that alternate.
template <class Optimizer>
std::pair<std::string, double> measure(const char* name, arrays& on, const Optimizer& optimizer) {
  const context c = host_device::make_context(0);
  const detail::optimizer_update update = detail::optimizer_update::of<context>(optimizer);
  const tensor_extents extents{rows, columns};
  detail::update_range range{elements * sizeof(float), on.bytes(0), on.bytes(1)};
  for (int i = 0; i < Optimizer::moments; ++i) range.moments[i] = on.bytes(static_cast<std::size_t>(2 + i));
  std::vector<float> kept;
  if (update.memory() != nullptr) kept.resize(update.memory()->bytes(extents, dtype::float32) / sizeof(float));
  range.extents = &extents;
  range.arrays = reinterpret_cast<std::byte*>(kept.data());
  const double moved = (3.0 + 2.0 * Optimizer::moments) * sizeof(float) * elements,
               of_triad = 3.0 * sizeof(float) * elements;
  std::vector<double> ratios, rates;
  for (int i = 0; i <= trials; ++i) {
    const double plain = of_triad / bench::timed([&] {
                           c.each(elements, triad{on.all[5].data(), on.all[0].data(), on.all[1].data()});
                         });
    const double ours = moved / bench::timed([&] { update(c, dtype::float32, range, {i + 1, 1e-6, 1}); });
    if (i == 0) continue;  // the first touches the pages
    ratios.push_back(ours / plain);
    rates.push_back(ours);
  }
  std::printf("%-24s %5.1f GB/s, over the triad %.2f\n", name, bench::median(rates) / 1e9, bench::median(ratios));
  return {std::string("optimizers.") + name, bench::median(ratios)};
}

}  // namespace

int main() {
  bench::print_environment();
  arrays on;
  // change: an optimizer
  const std::pair<std::string, double> found[] = {
      measure("sgd", on, sgd{.momentum = 0.9}),
      measure("adam", on, adam{}),
      measure("adamw", on, adamw{}),
      measure("rmsprop", on, rmsprop{}),
      measure("rmsprop_tf", on, rmsprop_tf{}),
      measure("lion", on, lion{}),
      measure("adafactor", on, adafactor{}),
      measure("adafactor_with_momentum", on, adafactor_with_momentum{}),
  };
  std::printf("\n");
  for (const auto& [name, ratio] : found) bench::result(name, ratio, "ratio");
}
