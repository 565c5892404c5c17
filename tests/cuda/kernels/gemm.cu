#include <gpipe/cuda/cuda.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <vector>

#include <gpipe/layer/activation/gelu.hpp>

#include "support/larger_error.hpp"
#include "support/on_gpu.hpp"

// The epilogues of products, and TF32. Context's test has the products themselves.

using namespace gpipe;

namespace {

constexpr std::size_t places(int rows, int columns) {
  return static_cast<std::size_t>(rows) * static_cast<std::size_t>(columns);
}
double in_a_double(bf16 x) { return static_cast<double>(static_cast<float>(x)); }

}  // namespace

TEST_CASE("GELU and its derivative are computed with products of bf16, or not at all") {
  const gpipe::cuda::context there;
  constexpr int rows = 20, k = 40;
  int fused = 0;
  for (const int n : {8, 12, 48, 64, 128}) {
    CAPTURE(n);
    const auto a = drawn_numbers<bf16>(places(rows, k), 1), row = drawn_numbers<bf16>(places(1, n), 3);
    const auto w = drawn_numbers<float>(places(n, k), 2);
    const std::vector<bf16> h_zero(places(rows + 1, n));
    const on_gpu<bf16> a_(there, a), row_(there, row), h_(there, h_zero), z_(there, h_zero);
    const on_gpu<bf16> packed_(there, std::vector<bf16>(packed_size(k, n))), d_(there, h_zero);
    const on_gpu<float> w_(there, w);
    there.pack<bf16>(k, n, w_, k, true, packed_);
    there.prepare_gelu(rows, n, k);
    const bool first = there.multiply_plus_gelu(rows, n, k, a_, packed_, row_, h_, z_);
    CHECK(first == there.multiply_gelu_gradient(rows, n, k, a_, packed_, h_, d_));
    CHECK_FALSE(there.multiply_plus_gelu(rows, n, k, a_, packed_, row_, h_ + 8, z_));  // H begins at 16 bytes
    if (!first) continue;
    ++fused;
    const auto h = h_.back(), z = z_.back(), d = d_.back();
    double worst_h = 0, worst_z = 0, worst_d = 0;
    for (int r = 0; r < rows; ++r)
      for (int j = 0; j < n; ++j) {
        double product = 0;
        for (int i = 0; i < k; ++i)
          product += in_a_double(a[places(r, k) + places(1, i)]) * in_a_double(bf16(w[places(j, k) + places(1, i)]));
        const std::size_t at = places(r, n) + places(1, j);
        const double sum = product + in_a_double(row[places(1, j)]);
        const auto of_sum = gelu::both(sum), of_h = gelu::both(in_a_double(h[at]));
        const auto off = [](bf16 got, double want) { return std::fabs(in_a_double(got) - want); };
        worst_h = larger_error(worst_h, off(h[at], sum));
        worst_z = larger_error(worst_z, off(z[at], of_sum.value));
        worst_d = larger_error(worst_d, off(d[at], product * of_h.derivative));
      }
    CHECK(worst_h < 0x1p-7);
    CHECK(worst_z < 0x1p-7);
    CHECK(worst_d < 0x1p-7);
  }
  CHECK(fused > 0);
}

TEST_CASE("float is TF32, which has 10 bits behind the point, only where that is allowed") {
  const int size = short_settings ? 33 : 256;
  std::vector<float> a(places(size, size)), one(a.size());
  for (int i = 0; i < size; ++i) a[places(i, size + 1)] = 1 + 0x1p-20F, one[places(i, size + 1)] = 1;
  for (const bool allowed : {false, true}) {
    gpipe::cuda::context there;
    if (allowed) there.allow_tf32();
    const on_gpu<float> a_(there, a), b_(there, one), c_(there, a);
    there.multiply_back<float>(size, size, size, a_, b_, c_);
    CHECK(c_.back() == (allowed ? one : a));
  }
}
