#pragma once

// Attention of one sample by its definition: every pair of tokens, in double.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace laws {

using numbers = std::vector<double>;

/// The elements of all buffers that a layer declares, for one sample.
template <class Buffers>
constexpr std::size_t elements_in(const Buffers& declared) {
  std::size_t sum = 0;
  for (const auto& b : declared) sum += b.size;
  return sum;
}

/// y = x W^T + b for rows of x; b may be empty.
inline numbers plain_linear(const numbers& x, const numbers& w, const numbers& b, std::size_t inputs) {
  const std::size_t outputs = w.size() / inputs, rows = x.size() / inputs;
  numbers y(rows * outputs);
  for (std::size_t r = 0; r < rows; ++r)
    for (std::size_t o = 0; o < outputs; ++o) {
      if (!b.empty()) y[r * outputs + o] = b[o];
      for (std::size_t i = 0; i < inputs; ++i) y[r * outputs + o] += x[r * inputs + i] * w[o * inputs + i];
    }
  return y;
}

struct plain_heads {
  std::size_t heads, key_heads, width;
  bool causal;
};

/// The heads' output side by side, of rows of queries, keys and values. Keys from `length` on do not count.
inline numbers plain_attention(const plain_heads& as, const numbers& q, const numbers& k, const numbers& v,
                               std::size_t length) {
  const std::size_t of_q = as.heads * as.width, of_k = as.key_heads * as.width;
  const std::size_t queries = q.size() / of_q, keys = k.size() / of_k;
  numbers y(q.size());
  for (std::size_t h = 0; h < as.heads; ++h)
    for (std::size_t i = 0; i < queries; ++i) {
      const std::size_t group = h * as.key_heads / as.heads;
      numbers weight(keys);
      double sum = 0, top = 0;
      const auto sees = [&](std::size_t j) { return j < length && (!as.causal || j + queries <= i + keys); };
      for (std::size_t j = 0; j < keys; ++j) {
        for (std::size_t d = 0; d < as.width; ++d)
          weight[j] += q[i * of_q + h * as.width + d] * k[j * of_k + group * as.width + d];
        weight[j] /= std::sqrt(static_cast<double>(as.width));
        if (sees(j)) top = (std::max)(top, weight[j]);
      }
      for (std::size_t j = 0; j < keys; ++j) sum += weight[j] = sees(j) ? std::exp(weight[j] - top) : 0;
      for (std::size_t j = 0; j < keys && sum > 0; ++j)
        for (std::size_t d = 0; d < as.width; ++d)
          y[i * of_q + h * as.width + d] += weight[j] / sum * v[j * of_k + group * as.width + d];
    }
  return y;
}

}  // namespace laws
