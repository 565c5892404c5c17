#include <gpipe/cuda/long_rows.hpp>

#include <gpipe/cuda/cuda.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <vector>

#include "support/on_gpu.hpp"

using namespace gpipe;

namespace {

constexpr std::size_t elements(int rows, int columns) {
  return static_cast<std::size_t>(rows) * static_cast<std::size_t>(columns);
}

}  // namespace

// Whole numbers, so that every order of a sum has the same bits.
TEST_CASE("products of bf16 with long rows that begin anywhere are exact, in parts") {
  const gpipe::cuda::context there;
  constexpr int words = 50'257, width = 8;
  const auto small = [](std::size_t i, std::size_t apart) { return static_cast<int>(i * apart % 7) - 3; };
  for (const int rows : {1, short_settings ? 129 : 300}) {
    CAPTURE(rows);
    std::vector<bf16> x(elements(rows, width)), dy(elements(rows, words));
    std::vector<float> w(elements(words, width)), dw(w.size(), 1);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = bf16(static_cast<float>(small(i, 5)));
    for (std::size_t i = 0; i < dy.size(); ++i) dy[i] = bf16(static_cast<float>(small(i, 11)));
    for (std::size_t i = 0; i < w.size(); ++i) w[i] = static_cast<float>(small(i, 3));
    const on_gpu<bf16> x_(there, x), dy_(there, dy), y_(there, std::vector<bf16>(dy.size())), dx_(there, x);
    const on_gpu<float> w_(there, w), dw_(there, dw);
    const on_gpu<bf16> forward_(there, std::vector<bf16>(packed_size(width, words))),
        backward_(there, std::vector<bf16>(packed_size(words, width)));
    there.pack<bf16>(width, words, w_, width, true, forward_);
    there.pack<bf16>(words, width, w_, width, false, backward_);
    there.prepare_multiply<bf16>(rows, words, width), there.prepare_multiply<bf16>(rows, width, words);
    there.prepare_multiply_transposed<bf16>(words, width, rows);
    there.multiply<bf16>(rows, words, width, x_, forward_, y_, false);
    there.multiply<bf16>(rows, width, words, dy_, backward_, dx_, true);
    there.multiply_transposed<bf16>(words, width, rows, dy_, x_, dw_);
    const auto y = y_.back(), dx = dx_.back();
    const auto found_dw = dw_.back();
    std::vector<int> want_dx(x.size()), want_dw(w.size(), 1);
    bool y_is_exact = true;
    for (int r = 0; r < rows; ++r)
      for (int j = 0; j < words; ++j) {
        int sum = 0;
        for (int i = 0; i < width; ++i) {
          const std::size_t of_x = elements(r, width) + elements(1, i), of_w = elements(j, width) + elements(1, i);
          const int g = small(elements(r, words) + elements(1, j), 11);
          sum += small(of_x, 5) * small(of_w, 3);
          want_dx[of_x] += g * small(of_w, 3), want_dw[of_w] += g * small(of_x, 5);
        }
        y_is_exact =
            y_is_exact && static_cast<float>(y[elements(r, words) + elements(1, j)]) == static_cast<float>(sum);
      }
    CHECK(y_is_exact);
    bool dx_is_exact = true, dw_is_exact = true;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const auto sum = static_cast<float>(want_dx[i] + small(i, 5));
      dx_is_exact = dx_is_exact && static_cast<float>(dx[i]) == static_cast<float>(bf16(sum));
    }
    for (std::size_t i = 0; i < w.size(); ++i)
      dw_is_exact = dw_is_exact && found_dw[i] == static_cast<float>(want_dw[i]);
    CHECK(dx_is_exact);
    CHECK(dw_is_exact);
  }
}

TEST_CASE("products with long rows choose no algorithm once they are prepared") {
  using gpipe::cuda::long_rows;
  const gpipe::cuda::stream on(0);
  gpipe::cuda::gemm by(on);
  const long_rows products(on, by);
  constexpr int words = 4'097, width = 8, most = 600;
  const gpipe::cuda::context there;
  const on_gpu<bf16> narrow(there, std::vector<bf16>(elements(most, width))),
      wide(there, std::vector<bf16>(elements(most, words)));
  const on_gpu<bf16> packed(there, std::vector<bf16>(packed_size(words, width) + packed_size(width, words)));
  const on_gpu<float> sums(there, std::vector<float>(elements(words, width)));
  there.finish();
  products.prepare_multiply(most, words, width), products.prepare_multiply(most, width, words);
  products.prepare_multiply_transposed(words, width, most);
  const std::size_t chosen = by.chosen();
  for (const int rows : {1, 5, 300, most}) {
    REQUIRE(long_rows::multiplies(words, width, false));
    REQUIRE(long_rows::multiplies(width, words, true));
    REQUIRE(long_rows::multiplies_transposed(words, rows));
    products.multiply(rows, words, width, narrow, packed, wide, false);
    products.multiply(rows, width, words, wide, packed, narrow, true);
    products.multiply_transposed(words, width, rows, wide, narrow, sums);
  }
  gpipe::cuda::check(cudaStreamSynchronize(on.get()), "cudaStreamSynchronize");
  CHECK(by.chosen() == chosen);
  CHECK_FALSE(long_rows::multiplies(words, width, true));   // a result that is added to stays as it is
  CHECK_FALSE(long_rows::multiplies(4'104, width, false));  // rows of 16 bytes
  CHECK_FALSE(long_rows::multiplies(4'095, width, false));
}
