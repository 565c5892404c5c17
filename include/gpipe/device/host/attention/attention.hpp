#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

#include <gpipe/core/config.hpp>
#include <gpipe/core/tensors/dtype.hpp>
#include <gpipe/layer/contract/attention_shape.hpp>

namespace gpipe::host {

/// Attention, one query after the other.
struct row_attention {
  template <class T>
  static void prepare(const attention_shape&) {}

  template <class T>
  GPIPE_OUT_OF_LINE static void forward(const attention_shape& s, const T* q, const T* k, const T* v,
                                        const std::int32_t* lengths, T* o, compute_type<T>* log_sums) {
    using number = compute_type<T>;
    each_row(s, lengths, [&](std::ptrdiff_t row, int n, int h, int i, int seen) {
      const T* query = q + at(s.q, n, h, i);
      const int g = h / (s.heads / s.key_heads);
      const auto score = [&](int j) { return number(s.scale) * dot(s.width, query, k + at(s.k, n, g, j)); };
      number max = std::numeric_limits<number>::lowest(), sum = 0;
      for (int j = 0; j < seen; ++j) max = (std::max)(max, score(j));
      for (int j = 0; j < seen; ++j) sum += std::exp(score(j) - max);
      log_sums[row] = seen > 0 ? max + std::log(sum) : -std::numeric_limits<number>::infinity();
      for (int c = 0; c < s.width; ++c) {
        number total = 0;
        for (int j = 0; j < seen; ++j) total += std::exp(score(j) - log_sums[row]) * number(v[at(s.v, n, g, j) + c]);
        o[at(s.o, n, h, i) + c] = T(total);
      }
    });
  }

  template <class T>
  GPIPE_OUT_OF_LINE static void backward(const attention_shape& s, const T* q, const T* k, const T* v,
                                         const std::int32_t* lengths, const T* o, const compute_type<T>* log_sums,
                                         const T* d_o, T* d_q, T* d_k, T* d_v) {
    using number = compute_type<T>;
    for (int n = 0; n < s.samples; ++n)
      for (int g = 0; g < s.key_heads; ++g)
        for (int j = 0; j < s.keys; ++j)
          for (int c = 0; c < s.width; ++c) d_k[at(s.k, n, g, j) + c] = d_v[at(s.v, n, g, j) + c] = T(0);
    each_row(s, lengths, [&](std::ptrdiff_t row, int n, int h, int i, int seen) {
      const int g = h / (s.heads / s.key_heads);
      const std::ptrdiff_t query = at(s.q, n, h, i), out = at(s.o, n, h, i);
      const number d = dot(s.width, d_o + out, o + out);
      for (int c = 0; c < s.width; ++c) d_q[query + c] = T(0);
      for (int j = 0; j < seen; ++j) {
        const std::ptrdiff_t key = at(s.k, n, g, j), value = at(s.v, n, g, j);
        const number p = std::exp(number(s.scale) * dot(s.width, q + query, k + key) - log_sums[row]);
        const number ds = p * (dot(s.width, d_o + out, v + value) - d) * number(s.scale);
        for (int c = 0; c < s.width; ++c) {
          d_v[value + c] = T(number(d_v[value + c]) + p * number(d_o[out + c]));
          d_k[key + c] = T(number(d_k[key + c]) + ds * number(q[query + c]));
          d_q[query + c] = T(number(d_q[query + c]) + ds * number(k[key + c]));
        }
      }
    });
  }

 private:
  static std::ptrdiff_t at(const attention_shape::strides& s, int sample, int head, int row) {
    return sample * s.sample + head * s.head + row * s.row;
  }
  template <class T>
  static compute_type<T> dot(int width, const T* a, const T* b) {
    compute_type<T> sum = 0;
    for (int c = 0; c < width; ++c) sum += compute_type<T>(a[c]) * compute_type<T>(b[c]);
    return sum;
  }
  template <class F>
  static void each_row(const attention_shape& s, const std::int32_t* lengths, F f) {
    std::ptrdiff_t row = 0;
    for (int n = 0; n < s.samples; ++n)
      for (int h = 0; h < s.heads; ++h)
        for (int i = 0; i < s.queries; ++i, ++row) {
          const int keys = lengths ? (std::min)(lengths[n], s.keys) : s.keys;
          f(row, n, h, i, s.causal ? (std::min)(keys, i + 1 + s.keys - s.queries) : keys);
        }
  }
};

}  // namespace gpipe::host
