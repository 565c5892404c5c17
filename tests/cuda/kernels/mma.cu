#include <gpipe/cuda/kernels/mma.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <gpipe/core/numbers/random.hpp>

#include "support/on_gpu.hpp"

// Every position of every fragment, against plain loops.

namespace tensor_cores {

using namespace gpipe;
using namespace gpipe::cuda::detail;

namespace {

/// Whole numbers below 2^7 have sums that are exact in every order.
std::vector<bf16> whole_numbers(std::size_t size, std::uint32_t stream) {
  std::vector<bf16> found(size);
  for (std::size_t i = 0; i < size; ++i)
    found[i] = std::floor(100 * uniform(draw({.layer_index = stream}, 0, static_cast<std::uint32_t>(i)).word[0])) - 50;
  return found;
}

/// Which element of a fragment is where, by the table in mma.hpp.
__global__ void multiply_by_table(const bf16* a, const bf16* b, float* c) {
  const int g = lane_of_warp() / 4, t = lane_of_warp() % 4;
  const auto pair = [](bf16 first, bf16 second) { return unsigned{first.bits} | unsigned{second.bits} << 16; };
  left_fragment left;
  right_fragment right;
  for (int word = 0; word < 4; ++word) {
    const bf16* at = a + (g + 8 * (word % 2)) * 16 + 2 * t + 8 * (word / 2);
    left.word[word] = pair(at[0], at[1]);
  }
  for (int word = 0; word < 2; ++word) {
    const bf16* at = b + (2 * t + 8 * word) * 8 + g;
    right.word[word] = pair(at[0], at[8]);
  }
  sum_fragment sums;
  for (int i = 0; i < 4; ++i) sums.value[i] = c[(g + 8 * (i / 2)) * 8 + 2 * t + i % 2];
  multiply_add(sums, left, right);
  for (int i = 0; i < 4; ++i) c[(g + 8 * (i / 2)) * 8 + 2 * t + i % 2] = sums.value[i];
}

/// Rows of 64 bf16: all `count` of them with cp.async, zeros behind.
constexpr int width = 64, tall = 32;
__device__ swizzled_rows<width> load_rows(uint4* memory, const bf16* from, int count) {
  const swizzled_rows<width> rows{shared_address(memory)};
  for (int i = lane_of_warp(); i < tall * width / 8; i += warp_size)
    begin_copy(rows.at(i / 8, i % 8), i / 8 < count ? from + i * 8 : from, i / 8 < count ? 16 : 0);
  commit_copies();
  await_copies<0>();
  __syncthreads();
  return rows;
}

/// c = a b^T, 16 x 16, of rows [first, first + 16) of both and all columns; and d = a b of the first 16 rows of b.
__global__ void multiply_rows(const bf16* a, const bf16* b, int count, float* c, float* d) {
  __shared__ uint4 of_a[tall * width / 8], of_b[tall * width / 8];
  const auto left = load_rows(of_a, a, count), right = load_rows(of_b, b, count);
  const int g = lane_of_warp() / 4, t = lane_of_warp() % 4;
  for (int row = 0; row < tall; row += 16)
    for (int column = 0; column < tall; column += 16) {
      sum_fragment sums[2] = {};
      for (int k = 0; k < width; k += 16) {
        right_fragment two[2];
        right.right(two, column, k);
        for (int j = 0; j < 2; ++j) multiply_add(sums[j], left.left(row, k), two[j]);
      }
      for (int i = 0; i < 8; ++i)
        c[(row + g + 8 * (i % 4 / 2)) * tall + column + 8 * (i / 4) + 2 * t + i % 2] = sums[i / 4].value[i % 4];
    }
  for (int row = 0; row < tall; row += 16)
    for (int column = 0; column < width; column += 16) {
      sum_fragment sums[2] = {};
      for (int k = 0; k < tall; k += 16) {
        right_fragment two[2];
        right.right_transposed(two, k, column);
        for (int j = 0; j < 2; ++j) multiply_add(sums[j], left.left(row, k), two[j]);
      }
      for (int i = 0; i < 8; ++i)
        d[(row + g + 8 * (i % 4 / 2)) * width + column + 8 * (i / 4) + 2 * t + i % 2] = sums[i / 4].value[i % 4];
    }
}

/// One, two and four matrices, as they are and transposed: what each lane has, as whole words.
template <int Count, bool Transposed>
__global__ void load(const bf16* from, unsigned* into) {
  __shared__ uint4 memory[32];  // row i has 16 bytes
  reinterpret_cast<bf16*>(memory)[8 * lane_of_warp()] = from[8 * lane_of_warp()];
  for (int i = 1; i < 8; ++i) reinterpret_cast<bf16*>(memory)[8 * lane_of_warp() + i] = from[8 * lane_of_warp() + i];
  __syncthreads();
  unsigned word[Count];
  load_matrices<Count, Transposed>(word, shared_address(memory + lane_of_warp()));
  for (int i = 0; i < Count; ++i) into[Count * lane_of_warp() + i] = word[i];
}
template <int Count, bool Transposed>
void check_load(const gpipe::cuda::context& there) {
  const auto from = whole_numbers(256, 7);
  const on_gpu<bf16> from_(there, from);
  const on_gpu<unsigned> into(there, std::vector<unsigned>(32 * Count));
  gpipe::cuda::launch<const bf16*, unsigned*>(there.queue(), dim3(1), dim3(32), load<Count, Transposed>, from_.data(),
                                              into.data());
  const auto got = into.back();
  for (std::size_t lane = 0; lane < 32; ++lane)
    for (std::size_t m = 0; m < Count; ++m) {
      const std::size_t g = lane / 4, t = lane % 4, up = 8 * m;
      const bf16 first = Transposed ? from[(up + 2 * t) * 8 + g] : from[(up + g) * 8 + 2 * t],
                 second = Transposed ? from[(up + 2 * t + 1) * 8 + g] : from[(up + g) * 8 + 2 * t + 1];
      CHECK(got[Count * lane + m] == (unsigned{first.bits} | unsigned{second.bits} << 16));
    }
}

__global__ void pack(const float* x, unsigned* into) { *into = packed(x[0], x[1]); }

}  // namespace

TEST_CASE("a product has its operands and sums where the table says") {
  const gpipe::cuda::context there;
  const auto a = whole_numbers(16 * 16, 1), b = whole_numbers(16 * 8, 2);
  std::vector<float> c(16 * 8);
  for (std::size_t i = 0; i < c.size(); ++i) c[i] = static_cast<float>(i);
  const on_gpu<bf16> a_(there, a), b_(there, b);
  const on_gpu<float> c_(there, c);
  gpipe::cuda::launch<const bf16*, const bf16*, float*>(there.queue(), dim3(1), dim3(32), multiply_by_table, a_.data(),
                                                        b_.data(), c_.data());
  for (std::size_t i = 0; i < 16; ++i)
    for (std::size_t j = 0; j < 8; ++j)
      for (std::size_t k = 0; k < 16; ++k) c[i * 8 + j] += float(a[i * 16 + k]) * float(b[k * 8 + j]);
  CHECK(c_.back() == c);
}

TEST_CASE(
    "rows are copied to shared memory and multiplied as they are and transposed; rows beyond the last are zeros") {
  const gpipe::cuda::context there;
  for (const int count : {tall, 19, 1}) {
    CAPTURE(count);
    // Allocations end behind the rows that exist.
    const auto a = whole_numbers(static_cast<std::size_t>(count * width), 3),
               b = whole_numbers(static_cast<std::size_t>(count * width), 4);
    std::vector<float> c(tall * tall), d(tall * width);
    const on_gpu<bf16> a_(there, a), b_(there, b);
    const on_gpu<float> c_(there, c), d_(there, d);
    gpipe::cuda::launch<const bf16*, const bf16*, int, float*, float*>(
        there.queue(), dim3(1), dim3(32), multiply_rows, a_.data(), b_.data(), count, c_.data(), d_.data());
    const auto rows = static_cast<std::size_t>(count);
    for (std::size_t i = 0; i < rows; ++i)
      for (std::size_t j = 0; j < rows; ++j)
        for (std::size_t k = 0; k < width; ++k) c[i * tall + j] += float(a[i * width + k]) * float(b[j * width + k]);
    for (std::size_t i = 0; i < rows; ++i)
      for (std::size_t j = 0; j < width; ++j)
        for (std::size_t k = 0; k < std::size_t{tall} && k < rows; ++k)
          d[i * width + j] += float(a[i * width + k]) * float(b[k * width + j]);
    CHECK(c_.back() == c);
    CHECK(d_.back() == d);
  }
}

TEST_CASE("one, two and four matrices are loaded, as they are and transposed") {
  const gpipe::cuda::context there;
  check_load<1, false>(there), check_load<2, false>(there), check_load<4, false>(there);
  check_load<1, true>(there), check_load<2, true>(there), check_load<4, true>(there);
}

TEST_CASE("two floats are packed as bf16 rounds them") {
  const gpipe::cuda::context there;
  for (const float x : {1.0F, 1.00390625F, 1.01171875F, -3.3895314e38F, 1e-40F, 3.4028235e38F}) {  // two ties
    const on_gpu<float> from(there, {x, -x});
    const on_gpu<unsigned> into(there, {0});
    gpipe::cuda::launch<const float*, unsigned*>(there.queue(), dim3(1), dim3(1), pack, from.data(), into.data());
    CHECK(into.back()[0] == (unsigned{bf16(x).bits} | unsigned{bf16(-x).bits} << 16));
  }
}

}  // namespace tensor_cores
