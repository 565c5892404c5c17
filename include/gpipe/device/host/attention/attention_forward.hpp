#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numbers>

#include <gpipe/core/config.hpp>
#include <gpipe/core/numbers/math.hpp>
#include <gpipe/core/tensors/dtype.hpp>
#include <gpipe/device/host/attention/block_softmax.hpp>
#include <gpipe/device/host/attention/key_block.hpp>
#include <gpipe/device/host/attention/products.hpp>
#include <gpipe/device/host/gemm/gemm_tile.hpp>
#include <gpipe/layer/contract/attention_shape.hpp>

namespace gpipe::host {

/// Attention without an array of all scores (Dao et al., "FlashAttention", 2022). A block of queries meets the keys in
/// blocks of 64, in ascending order, each row with a level m (about the maximum) and the sum l so far:
///
///     S = K Q^T,   m' = m or max S,   P = e^(S - m'),   f = e^(m - m'),   l = f l + sum P,   O = f O + P^T V
///
/// and at the end o = O / l, log_sum = m + log l.
template <class T, class Products>
struct attention_forward {
  using number = compute_type<T>;
  using scratch = attention_scratch<T>;

  GPIPE_COLD static void prepare(const attention_shape& shape) {
    scratch::require_width(shape.width);
    const int height = scratch::queries_of(shape.width);
    for (const int queries : {(std::min)(height, shape.queries), shape.queries % height})
      if (queries > 0) products(shape, height, queries).prepare(shape.causal);
  }

  GPIPE_OUT_OF_LINE static void run(const attention_shape& shape, const T* q, const T* k, const T* v,
                                    const std::int32_t* lengths, T* o, number* log_sums) {
    if (shape.width > scratch::max_width) scratch::require_width(shape.width);
    const int height = scratch::queries_of(shape.width), remainder = shape.queries % height;
    const products whole(shape, height, height), last(shape, height, remainder);
    for (int n = 0; n < shape.samples; ++n) {
      const int limit = lengths ? std::clamp<int>(lengths[n], 0, shape.keys) : shape.keys;
      const visible_keys seen{limit, shape.keys - shape.queries, shape.causal};
      for (int h = 0; h < shape.heads; ++h, log_sums += shape.queries) {
        const int g = h / (shape.heads / shape.key_heads);
        const T *keys = detail::head_of(k, shape.k, n, g), *values = detail::head_of(v, shape.v, n, g);
        for (int i = 0; i < shape.queries; i += height) {
          const int count = (std::min)(height, shape.queries - i);
          rows_of_queries(shape, count < height ? last : whole, seen, i, count,
                          detail::head_of(q, shape.q, n, h) + i * shape.q.row, keys, values,
                          detail::head_of(o, shape.o, n, h) + i * shape.o.row, log_sums + i);
        }
      }
    }
  }

 private:
  struct products {
    using kind = attention_product;
    int height;
    typename Products::template table<number, kind::scores> scores;
    typename Products::template table<number, kind::of_queries> outputs;

    products(const attention_shape& s, int block_height, int queries)
        : height(block_height),
          scores({key_block::padded(queries), s.width, detail::stride_of(s.k, s.width, scratch::converts), height,
                  height}),
          outputs({queries, s.width, height, detail::stride_of(s.v, s.width, scratch::converts), s.width}) {}
    void prepare(bool causal) const { scores.prepare(causal), outputs.prepare(causal); }
  };

  // change: an operation on attention probabilities; between the softmax and the second product
  GPIPE_OUT_OF_LINE static void rows_of_queries(const attention_shape& shape, const products& multiply,
                                                const visible_keys& seen, int first, int count, const T* q, const T* k,
                                                const T* v, T* o, number* log_sums) {
    using detail::offset;
    constexpr std::size_t converted = scratch::converts ? key_block::largest * scratch::max_width : 1;
    alignas(gpipe::detail::alignment) number queries[scratch::rows], out[scratch::rows], scores[scratch::scores];
    alignas(gpipe::detail::alignment) number level[scratch::max_queries], sum[scratch::max_queries];
    alignas(gpipe::detail::alignment) number factor[scratch::max_queries], room[converted];
    const int width = shape.width, height = multiply.height;
    const number scale = static_cast<number>(shape.scale * std::numbers::log2e);
    detail::transpose_rows(detail::rows_in(q, shape.q.row, count, width, scratch::converts, out), count, width, queries,
                           height);
    std::fill_n(level, height, block_softmax<number>::lowest);
    std::fill_n(sum, height, number(0));
    const int end = seen(first + count - 1);
    bool add = seen(first) == 0;  // else the first product covers all queries
    if (add) detail::zero_rows(count, width, out, width);
    for (int key = 0; key < end; key += key_block::largest) {
      const key_block block{seen, first, count, key, (std::min)(key_block::largest, end - key)};
      const auto some_keys =
          detail::rows_in(k + key * shape.k.row, shape.k.row, block.count, width, scratch::converts, room);
      block.template each_piece<key_block::lanes>([&](int first_key, int keys, int query) {
        multiply.scores(keys, query, false, some_keys.data + offset(first_key, some_keys.stride), queries,
                        scores + offset(first_key, height));
      });
      block_softmax<number>::forward(block, scale, scores, height, level, sum, factor);
      if (add) rescale(count, width, factor, out);
      const auto values =
          detail::rows_in(v + key * shape.v.row, shape.v.row, block.count, width, scratch::converts, room);
      block.template each_piece<key_block::strip>([&](int first_key, int keys, int query) {
        multiply.outputs(keys, query, add, scores + offset(first_key, height),
                         values.data + offset(first_key, values.stride), out);
        add = true;
      });
    }
    for (int i = 0; i < count; ++i) {
      const bool sees = sum[i] != number(0);
      const number inverse = sees ? number(1) / sum[i] : number(0);
      for (int c = 0; c < width; ++c) o[i * shape.o.row + c] = T(out[offset(i, width) + c] * inverse);
      log_sums[i] = sees ? (level[i] + math::log2(sum[i])) * std::numbers::ln2_v<number>
                         : -std::numeric_limits<number>::infinity();
    }
  }

  static void rescale(int count, int width, const number* factor, number* out) {
    for (int i = 0; i < count; ++i)
      if (factor[i] != number(1))
        for (int c = 0; c < width; ++c) out[detail::offset(i, width) + c] *= factor[i];
  }
};

}  // namespace gpipe::host
