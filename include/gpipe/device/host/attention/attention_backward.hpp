#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numbers>

#include <gpipe/core/config.hpp>
#include <gpipe/core/tensors/dtype.hpp>
#include <gpipe/device/host/attention/block_softmax.hpp>
#include <gpipe/device/host/attention/key_block.hpp>
#include <gpipe/device/host/attention/products.hpp>
#include <gpipe/device/host/gemm/gemm_tile.hpp>
#include <gpipe/layer/contract/attention_shape.hpp>

namespace gpipe::host {

// change: an operation on attention probabilities
/// The gradients of attention. P is computed again from the log sums L; with D_i = do_i . o_i, for each pair of blocks:
///
///     S = K Q^T,  P = e^(scale S - L),  dP = V dO^T,  dS = scale P (dP - D),  dV += P dO,  dK += dS Q,  dQ += dS^T K
///
/// Blocks of queries come in ascending order, and for each the blocks of keys. dK and dV are added up in memory, where
/// a block's first product overwrites. In bf16 that would round each sum, so dQ has a separate pass, and another pass
/// has the blocks of keys outside, with the same order of each sum. The results are the float results, rounded once.
template <class T, class Products>
struct attention_backward {
  using number = compute_type<T>;
  using scratch = attention_scratch<T>;

  /// The arrays of a call; of one head inside.
  struct arrays {
    const T *q, *k, *v;
    const T* o;
    const number* log_sums;
    const T* d_o;
    T *d_q, *d_k, *d_v;
  };

  GPIPE_COLD static void prepare(const attention_shape& shape) {
    scratch::require_width(shape.width);
    const int height = scratch::queries_of(shape.width);
    for (const int queries : {(std::min)(height, shape.queries), shape.queries % height})
      if (queries > 0) products(shape, height, queries).prepare(shape.causal);
  }

  GPIPE_OUT_OF_LINE static void run(const attention_shape& shape, const std::int32_t* lengths, const arrays& call) {
    if (shape.width > scratch::max_width) scratch::require_width(shape.width);
    const int height = scratch::queries_of(shape.width), remainder = shape.queries % height;
    const both_products multiply{{shape, height, height}, {shape, height, remainder}};
    const int group = shape.heads / shape.key_heads;
    for (int n = 0; n < shape.samples; ++n) {
      const int limit = lengths ? std::clamp<int>(lengths[n], 0, shape.keys) : shape.keys;
      const visible_keys seen{limit, shape.keys - shape.queries, shape.causal};
      for (int g = 0; g < shape.key_heads; ++g) {
        const auto head = [&](int member) {
          using detail::head_of;
          const int h = g * group + member;
          return arrays{head_of(call.q, shape.q, n, h),
                        head_of(call.k, shape.k, n, g),
                        head_of(call.v, shape.v, n, g),
                        head_of(call.o, shape.o, n, h),
                        call.log_sums + (std::ptrdiff_t{n} * shape.heads + h) * shape.queries,
                        head_of(call.d_o, shape.o, n, h),
                        head_of(call.d_q, shape.q, n, h),
                        head_of(call.d_k, shape.k, n, g),
                        head_of(call.d_v, shape.v, n, g)};
        };
        // With strips that begin at a block of queries' first new key, products of new keys overwrite.
        const bool overwrites = !shape.causal || (seen.diagonal >= 0 && seen.diagonal % key_block::lanes == 0);
        if constexpr (!scratch::converts) {
          const arrays first_head = head(0);
          const int kept = overwrites && shape.queries > 0 ? limit : 0;
          detail::zero_rows(shape.keys - kept, shape.width, first_head.d_k + kept * shape.k.row, shape.k.row);
          detail::zero_rows(shape.keys - kept, shape.width, first_head.d_v + kept * shape.v.row, shape.v.row);
        }
        for (int member = 0; member < group; ++member)
          for (int i = 0; i < shape.queries; i += height)
            of_queries(shape, multiply, seen, i, head(member), member == 0 && overwrites);
        if constexpr (scratch::converts) {
          const int step = step_of(shape.width);
          for (int key = 0; key < shape.keys; key += step)
            of_keys(shape, multiply, seen, key, (std::min)(step, shape.keys - key), group, head);
        }
      }
    }
  }

 private:
  struct products {
    using kind = attention_product;
    template <kind Kind>
    using table = typename Products::template table<number, Kind>;
    bool copy_q, copy_o;  // rows of a block of queries are copied
    int q, k, v, o;       // strides in products
    table<kind::scores> scores, differences;
    table<kind::of_queries> d_q;
    table<kind::of_keys> d_k, d_v;

    products(const attention_shape& s, int height, int queries)
        : copy_q(scratch::converts || detail::rows_collide<T>(s.q)),
          copy_o(scratch::converts || detail::rows_collide<T>(s.o)),
          q(detail::stride_of(s.q, s.width, copy_q)),
          k(detail::stride_of(s.k, s.width, scratch::converts)),
          v(detail::stride_of(s.v, s.width, scratch::converts)),
          o(detail::stride_of(s.o, s.width, copy_o)),
          scores({key_block::padded(queries), s.width, k, height, height}),
          differences({key_block::padded(queries), s.width, v, height, height}),
          d_q({queries, s.width, height, k, detail::stride_of(s.q, s.width, scratch::converts)}),
          d_k({queries, s.width, height, q, k}),
          d_v({queries, s.width, height, o, v}) {}
    GPIPE_COLD void prepare(bool causal) const {
      scores.prepare(causal), differences.prepare(causal);
      d_q.prepare(causal), d_k.prepare(causal), d_v.prepare(causal);
    }
  };
  struct both_products {
    products whole, last;
  };

  // A block of queries of one head, the same for all blocks of keys.
  struct query_block {
    alignas(gpipe::detail::alignment) number q[scratch::rows], d_o[scratch::rows];  // transposed
    alignas(gpipe::detail::alignment) number q_room[scratch::rows], o_room[scratch::rows];
    alignas(gpipe::detail::alignment) number s[scratch::scores], d_s[scratch::scores];
    alignas(gpipe::detail::alignment) number log_sums[scratch::max_queries], means[scratch::max_queries];
    const products* multiply;
    attention_rows<number> q_rows, o_rows;
    int first, count, height, width;
    number scale, out_scale;

    GPIPE_OUT_OF_LINE void load(const attention_shape& shape, const both_products& both, int first_query,
                                const arrays& a) {
      first = first_query, width = shape.width, height = scratch::queries_of(width);
      count = (std::min)(height, shape.queries - first);
      multiply = count < height ? &both.last : &both.whole;
      out_scale = static_cast<number>(shape.scale), scale = static_cast<number>(shape.scale * std::numbers::log2e);
      // The room of the transposed rows is free until then: it holds rows of o.
      const auto o_out = detail::rows_in(a.o + first * shape.o.row, shape.o.row, count, width, scratch::converts, q);
      o_rows = detail::rows_in(a.d_o + first * shape.o.row, shape.o.row, count, width, multiply->copy_o, o_room);
      for (int i = 0; i < height; ++i) {
        const bool sees = i < count && a.log_sums[first + i] > -std::numeric_limits<number>::infinity();
        log_sums[i] = sees ? a.log_sums[first + i] * std::numbers::log2e_v<number> : number(0);
        means[i] = sees ? block_softmax<number>::dot(width, o_rows.data + detail::offset(i, o_rows.stride),
                                                     o_out.data + detail::offset(i, o_out.stride))
                        : number(0);
      }
      q_rows = detail::rows_in(a.q + first * shape.q.row, shape.q.row, count, width, multiply->copy_q, q_room);
      detail::transpose_rows(q_rows, count, width, q, height);
      detail::transpose_rows(o_rows, count, width, d_o, height);
    }

    // P and dS, in s and d_s.
    void meet(const key_block& block, const number* keys, const number* values) {
      using detail::offset;
      block.template each_piece<key_block::lanes>([&](int first_key, int count_of_keys, int query) {
        multiply->scores(count_of_keys, query, false, keys + offset(first_key, multiply->k), q,
                         s + offset(first_key, height));
        multiply->differences(count_of_keys, query, false, values + offset(first_key, multiply->v), d_o,
                              d_s + offset(first_key, height));
      });
      block_softmax<number>::backward(block, scale, out_scale, log_sums, means, s, d_s, height);
    }

    void add_to_keys(int first_key, int keys, int query, bool add, number* d_k, number* d_v) const {
      multiply->d_v(keys, query, add, s + detail::offset(first_key, height), o_rows.data,
                    d_v + detail::offset(first_key, multiply->v));
      multiply->d_k(keys, query, add, d_s + detail::offset(first_key, height), q_rows.data,
                    d_k + detail::offset(first_key, multiply->k));
    }
  };

  // A block of queries with all keys: dQ, and without conversion dK and dV.
  GPIPE_OUT_OF_LINE static void of_queries(const attention_shape& shape, const both_products& both,
                                           const visible_keys& seen, int first, const arrays& a, bool overwrites) {
    using detail::offset, detail::rows_in;
    alignas(gpipe::detail::alignment) number k_room[room], v_room[room];
    query_block queries;
    queries.load(shape, both, first, a);
    const int count = queries.count, width = shape.width, end = seen(first + count - 1), step = step_of(width);
    T* target = a.d_q + first * shape.q.row;
    number* d_q = queries.q_room;  // its rows of Q are for dK, which has its own pass if there is a conversion
    std::ptrdiff_t stride = width;
    if constexpr (!scratch::converts) d_q = target, stride = shape.q.row;
    bool add = seen(first) == 0;  // else the first product covers all queries
    if (add) detail::zero_rows(count, width, d_q, stride);
    const int old = !overwrites ? shape.keys : first == 0 ? 0 : seen(first - 1);  // keys that earlier queries have seen
    for (int key = 0; key < end; key += step) {
      const key_block block{seen, first, count, key, (std::min)(step, end - key)};
      const T *k = a.k + key * shape.k.row, *v = a.v + key * shape.v.row;
      const auto keys = rows_in(k, shape.k.row, block.count, width, scratch::converts, k_room);
      const auto values = rows_in(v, shape.v.row, block.count, width, scratch::converts, v_room);
      queries.meet(block, keys.data, values.data);
      block.template each_piece<key_block::strip>([&](int first_key, int key_count, int query) {
        queries.multiply->d_q(key_count, query, add, queries.d_s + offset(first_key, queries.height),
                              keys.data + offset(first_key, keys.stride), d_q);
        add = true;
        if constexpr (!scratch::converts)
          queries.add_to_keys(first_key, key_count, query, key + first_key < old, a.d_k + key * shape.k.row,
                              a.d_v + key * shape.v.row);
      });
    }
    if constexpr (scratch::converts)
      for (int row = 0; row < count; ++row) detail::copy(width, d_q + offset(row, width), target + row * shape.q.row);
  }

  // A block of keys with all queries of all heads that share the key head: dK and dV.
  template <class Head>
  GPIPE_OUT_OF_LINE static void of_keys(const attention_shape& shape, const both_products& both,
                                        const visible_keys& seen, int first, int count, int group, const Head& head) {
    using detail::offset, detail::rows_in;
    alignas(gpipe::detail::alignment) number k_room[room], v_room[room], d_k[room], d_v[room];
    query_block queries;
    const arrays a = head(0);
    const int width = shape.width, seen_at_all = std::clamp(seen.limit - first, 0, count);
    const auto keys = rows_in(a.k + first * shape.k.row, shape.k.row, seen_at_all, width, true, k_room);
    const auto values = rows_in(a.v + first * shape.v.row, shape.v.row, seen_at_all, width, true, v_room);
    detail::zero_rows(count, width, d_k, width);
    detail::zero_rows(count, width, d_v, width);
    for (int member = 0; member < group && seen_at_all > 0; ++member)
      for (int i = 0, height = scratch::queries_of(width); i < shape.queries; i += height) {
        const int last = (std::min)(i + height, shape.queries) - 1, end = (std::min)(seen(last), first + seen_at_all);
        if (end <= first) continue;
        queries.load(shape, both, i, head(member));
        const key_block block{seen, i, queries.count, first, end - first};
        queries.meet(block, keys.data, values.data);
        block.template each_piece<key_block::strip>([&](int first_key, int key_count, int query) {
          queries.add_to_keys(first_key, key_count, query, true, d_k, d_v);
        });
      }
    for (int row = 0; row < count; ++row) {
      detail::copy(width, d_k + offset(row, width), a.d_k + (first + row) * shape.k.row);
      detail::copy(width, d_v + offset(row, width), a.d_v + (first + row) * shape.v.row);
    }
  }

  // Converted rows of keys; there are as many at a time as queries.
  static constexpr std::size_t room = scratch::converts ? scratch::rows : 1;
  static int step_of(int width) { return scratch::converts ? scratch::queries_of(width) : key_block::largest; }
};

}  // namespace gpipe::host
