#include <gpipe/cuda/kernels/row_additions.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

#include <gpipe/cuda/cuda.hpp>

#include "support/on_gpu.hpp"

using namespace gpipe;

namespace {

template <class T>
struct add_one_after_the_other {
  std::ptrdiff_t count, width;
  const std::int32_t* to;
  const T* from;
  float scale, *into;
  template <class Team>
  GPIPE_HOST_DEVICE void operator()(std::ptrdiff_t, const Team& team) const {
    for (std::ptrdiff_t row = 0; row < count; ++row) {
      const T* x = from + row * width;
      float *sum = into + to[row] * width, by = scale;
      team.each(width, [=](std::ptrdiff_t j) { sum[j] += float(x[j]) * by; });
    }
  }
};

}  // namespace

TEST_CASE_TEMPLATE("add_rows has the bits of one row after the other", T, float, bf16) {
  const gpipe::cuda::context there;
  const auto agree = [&](int rows, int width, int targets, auto target_of) {
    CAPTURE(rows);
    CAPTURE(width);
    CAPTURE(targets);
    std::vector<std::int32_t> to;
    for (int row = 0; row < rows; ++row) to.push_back(target_of(row));
    const auto from = drawn_numbers<T>(static_cast<std::size_t>(rows * width), 0);
    const auto before = drawn_numbers<float>(static_cast<std::size_t>(targets * width), 1);
    const on_gpu<std::int32_t> to_(there, to);
    const on_gpu<T> from_(there, from);
    for (const float scale : {1.0F, 5.7F}) {
      const on_gpu<float> got(there, before), want(there, before);
      there.rows(1, add_one_after_the_other<T>{rows, width, to_, from_, scale, want});
      there.add_rows<T>(rows, width, to_, from_, scale, got);
      CHECK(got.back() == want.back());
    }
  };
  const auto some = [](int row) { return row * row % 31 * 3 % 97; };
  for (const int rows : {1, 2, 33, 255, 256, 257, 3000}) {
    if (short_settings && rows > 300 && std::is_same_v<T, bf16>) continue;
    for (const int width : {1, 65}) agree(rows, width, 97, some);
  }
  agree(70, 200, 97, some);
  agree(700, 33, 1, [](int) { return 0; });
  agree(500, 3, 500, [](int row) { return 499 - row; });
  agree(300, 3, 2, [](int row) { return row % 2; });
  agree(1, 3, 50'000, [](int) { return 49'999; });
  there.add_rows<T>(0, 3, nullptr, nullptr, 1, nullptr);
  if (!short_settings)
    agree(70'000, 9, 20'000, [](int row) { return row * 7919 % 100'003 % 20'000; });  // several sorts
}

TEST_CASE("a graph adds the rows of other targets each time") {
  const gpipe::cuda::context there;
  std::vector<std::int32_t> to{2, 0, 2, 1};
  const on_gpu<std::int32_t> to_(there, to);
  const on_gpu<float> from(there, {1, 2, 3, 4}), sums(there, {0, 0, 0});
  there.finish();
  gpipe::cuda::graph captured;
  there.begin(captured);
  there.upload(16, reinterpret_cast<const std::byte*>(to.data()), reinterpret_cast<std::byte*>(to_.data()));
  there.add_rows<float>(4, 1, to_, from, 1, sums);
  there.end(captured);
  there.launch(captured), there.finish();
  CHECK(sums.back() == std::vector<float>{2, 4, 4});
  to = {1, 1, 1, 1};
  captured.refill(0, 16, reinterpret_cast<const std::byte*>(to.data()));
  there.launch(captured), there.finish();
  CHECK(sums.back() == std::vector<float>{2, 14, 4});
}
