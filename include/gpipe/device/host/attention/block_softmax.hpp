#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

#include <gpipe/core/config.hpp>
#include <gpipe/core/numbers/math.hpp>
#include <gpipe/core/numbers/multiply_add.hpp>
#include <gpipe/device/host/attention/key_block.hpp>
#include <gpipe/device/host/gemm/vector.hpp>

namespace gpipe::host {

/// The softmax of a block of scores with a row for each key, so that a query is a lane of a vector. It works in powers
/// of two, 2^(s log2 e). Each lane's sum is in ascending order of keys, whatever the vectors' width.
template <class T>
struct block_softmax {
  /// Less than any score, and finite: the difference of two is no NaN.
  static constexpr T lowest = std::numeric_limits<T>::lowest() / 4;

  /// Turns scores S into P = 2^(scale S - level), and 0 under the mask. Adds P to `sum` after multiplying it with
  /// `factor`, which is 2^(old level - new level). A query's level is the largest of its scores, or up to 8 less: it
  /// rarely moves, and P <= 2^8. Rows are `stride` elements apart.
  GPIPE_OUT_OF_LINE static void forward(const key_block& block, T scale, T* s, int stride, T* level, T* sum,
                                        T* factor) {
    for (int query = 0; query < block.queries; query += key_block::lanes) {
      const key_block::rows rows = block.rows_of(query);
      for (int lane = query; lane < query + key_block::lanes; lane += width)
        column(block, rows, lane, scale, s + lane, stride, level + lane, sum + lane, factor + lane);
    }
  }

  /// Turns scores S and dP into P = 2^(scale S - log_sum) and dS = P (dP - mean) out_scale; 0 under the mask.
  GPIPE_OUT_OF_LINE static void backward(const key_block& block, T scale, T out_scale, const T* log_sum, const T* mean,
                                         T* s, T* d, int stride) {
    for (int query = 0; query < block.queries; query += key_block::lanes) {
      const key_block::rows rows = block.rows_of(query);
      for (int lane = query; lane < query + key_block::lanes; lane += width) {
        const vector factor = vectors::repeat(scale), level = load(log_sum + lane), middle = load(mean + lane);
        T *scores = s + lane, *out = d + lane;
        int row = 0;
        for (; row < rows.plain; ++row, scores += stride, out += stride) {
          const vector p = exp2(multiply_add(load(scores), factor, -level));
          store(p, scores);
          store(p * out_scale * (load(out) - middle), out);
        }
        for (; row < rows.masked; ++row, scores += stride, out += stride) {
          const auto visible = sees(block, row, lane);
          const vector p = exp2(multiply_add(load(scores), factor, -level)), ds = p * out_scale * (load(out) - middle);
          store(visible ? p : vector{}, scores);
          store(visible ? ds : vector{}, out);
        }
        for (row = rows.zeroed; row < block.count; ++row) {
          store(vector{}, s + lane + std::ptrdiff_t{row} * stride);
          store(vector{}, d + lane + std::ptrdiff_t{row} * stride);
        }
      }
    }
  }

  /// The sum of a[i] * b[i], in 16 lanes that are added up in pairs 8, 4, 2 and 1 apart.
  static T dot(int count, const T* a, const T* b) {
    constexpr int lanes = key_block::lanes;
    vector sums[std::size_t{lanes / width}] = {};
    int i = 0;
    for (; i + lanes <= count; i += lanes)
      for (int v = 0; v < lanes / width; ++v)
        sums[v] = multiply_add(load(a + i + v * width), load(b + i + v * width), sums[v]);
    T lane[lanes];
    for (int v = 0; v < lanes / width; ++v) store(sums[v], lane + v * width);
    for (int l = 0; i < count; ++i, ++l) lane[l] = gpipe::detail::multiply_add(a[i], b[i], lane[l]);
    for (int distance = lanes / 2; distance > 0; distance /= 2)
      for (int l = 0; l < distance; ++l) lane[l] += lane[l + distance];
    return lane[0];
  }

 private:
  using vectors = detail::vector<T>;
  using vector = typename vectors::type;
  static constexpr int width = vectors::width;
  static vector load(const T* source) { return vectors::load(source); }
  static void store(vector value, T* target) { vectors::store(value, target); }
  static vector multiply_add(vector a, vector b, vector c) { return vectors::multiply_add(a, b, c); }

  static void column(const key_block& block, const key_block::rows& rows, int lane, T scale, T* s, int stride, T* level,
                     T* sum, T* factor) {
    const vector before = load(level), scales = vectors::repeat(scale);
    vector highest = before;
    {
      vector odd_highest = highest;  // two maxima, because each comparison waits for the one before
      const T* scores = s;
      int row = 0;
      for (; row + 2 <= rows.plain; row += 2, scores += 2 * std::ptrdiff_t{stride}) {
        const vector a = load(scores) * scale, b = load(scores + stride) * scale;
        highest = larger(a, highest);
        odd_highest = larger(b, odd_highest);
      }
      for (; row < rows.masked; ++row, scores += stride) {
        const vector a = load(scores) * scale;
        highest = (sees(block, row, lane) & (a > highest)) ? a : highest;
      }
      highest = larger(odd_highest, highest);
      highest = highest > before + T(8) ? highest : before;
    }
    const vector change = exp2(before - highest);
    vector total = multiply_add(load(sum), change, vector{});  // rounded, and never fused with the first sum
    T* scores = s;
    int row = 0;
    for (; row < rows.plain; ++row, scores += stride) {
      const vector p = exp2(multiply_add(load(scores), scales, -highest));
      total += p;
      store(p, scores);
    }
    for (; row < rows.masked; ++row, scores += stride) {
      const vector p = sees(block, row, lane) ? exp2(multiply_add(load(scores), scales, -highest)) : vector{};
      total += p;
      store(p, scores);
    }
    for (row = rows.zeroed; row < block.count; ++row) store(vector{}, s + std::ptrdiff_t{row} * stride);
    store(highest, level);
    store(total, sum);
    store(change, factor);
  }

  // The larger one; b if one of them is NaN, as in the processor's instruction.
  static vector larger(vector a, vector b) { return a > b ? a : b; }

  // The mask of the queries `lane`, `lane` + 1, ... that see the key of the row.
  static auto sees(const key_block& block, int row, int lane) {
    vector lanes;
    for (int l = 0; l < width; ++l) lanes[l] = static_cast<T>(l);
    return lanes >= vector{} + static_cast<T>(block.query_of(row) - lane);
  }

  // 2^x for x < 128, to 2 units in the last place; exact for x = 0, and 0 below 2^-126.5.
  //
  //     2^x = 2^n 2^r,  n = round(x),  |r| <= 1/2,  2^r by a polynomial
  //
  // Adding 1.5 * 2^23 + 127 shifts the fraction out: the low bits of the sum are n + 127, the exponent of 2^n.
  static vector exp2(vector x) {
    if constexpr (std::is_same_v<T, float>) {
      using bits [[gnu::vector_size(gpipe::detail::vector_bytes)]] = std::uint32_t;
      x = larger(vector{} - 127.0F, x);
      const vector shifted = x + 12583039.0F;
      const vector r = x - (shifted - 12583039.0F);
      vector p = vectors::repeat(1.326472731e-3F);
      for (const float next : {9.671512991e-3F, 5.550733581e-2F, 2.402224243e-1F, 6.931470037e-1F, 1.0F})
        p = multiply_add(p, r, vectors::repeat(next));
      return multiply_add(p, __builtin_bit_cast(vector, __builtin_bit_cast(bits, shifted) << 23), vector{});
    } else {
      for (int l = 0; l < width; ++l) x[l] = math::exp2(x[l]);
      return x;
    }
  }
};

}  // namespace gpipe::host
