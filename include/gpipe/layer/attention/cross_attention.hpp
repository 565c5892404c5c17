#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include <gpipe/layer/attention/attention_base.hpp>
#include <gpipe/layer/attention/attention_options.hpp>
#include <gpipe/layer/attention/projections.hpp>
#include <gpipe/layer/contract/attention_shape.hpp>
#include <gpipe/layer/contract/bound.hpp>
#include <gpipe/layer/contract/operands.hpp>
#include <gpipe/layer/contract/panels.hpp>
#include <gpipe/layer/contract/row_parts.hpp>

namespace gpipe {

/// Attention of the tokens x of a first tensor to the tokens m of a second one, as a decoder's to an encoder's output:
///
///     q = x Q^T + q0,  [k v] = m P^T + p,   y = (softmax(q k^T / sqrt(w)) v of every head) O^T + o
///
///     input bundle<tensor<T, tokens, width>, tensor<T, key tokens, key width>>, output tensor<T, tokens, width>
///
/// `stash<"memory">, ..., pop<"memory">, cross_attention<...>` gives it this input. It has the parameters of
/// `attention`, as in PyTorch's MultiheadAttention: if the two widths differ, q_proj_weight {heads w, width},
/// k_proj_weight and v_proj_weight {key_heads w, key width} take the place of in_proj_weight. If padded, the field
/// "lengths" counts the second tensor's tokens; `with_field<"lengths", "source_lengths", cross_attention<...>>` gives
/// the field another name. It keeps both inputs, queries, keys, values, the heads' output and one number per row
/// of the softmax; backward overwrites queries, keys and values with their gradients. Generation keeps only the keys
/// and values of the encoder's output, which all sequences read.
template <attention_options Options = detail::no_heads>
struct cross_attention {
  static_assert(Options.rotary == 0,
                "gpipe: cross_attention has no rotary positions, because those of its two inputs "
                "are not comparable: leave attention_options{.rotary} at 0");

  template <class In>
  struct on;

  template <class T, int Tokens, int Width, int KeyTokens, int KeyWidth>
  requires(detail::is_floating(dtype_of<T>)) struct on<bundle<tensor<T, Tokens, Width>, tensor<T, KeyTokens, KeyWidth>>>
      : detail::attention_base<on<bundle<tensor<T, Tokens, Width>, tensor<T, KeyTokens, KeyWidth>>>, T, Options.padded>,
        detail::attention_parameters<Options, Width, KeyWidth, detail::extents_of(Options, Width)>,
        detail::length_field<Options.padded, KeyTokens> {
    using indices = detail::attention_parameters<Options, Width, KeyWidth, detail::extents_of(Options, Width)>;
    static_assert(detail::attention_promises<cross_attention, Options, Width>::kept > 0);
    static constexpr bool mixes_tokens = true, decodes = !Options.causal;  // the last query of all sees all keys
    static constexpr int kept_extras = 0, source_input = 1;
    using output = tensor<T, Tokens, Width>;
    using number = compute_type<T>;
    static constexpr detail::attention_extents heads = detail::extents_of(Options, Width);
    static constexpr int Q = heads.queries(), K = heads.keys();  // columns
    // The first rows of keys and values in the stacked weight.
    static constexpr bool stacked = Width == KeyWidth;
    static constexpr std::ptrdiff_t to_keys = stacked ? std::ptrdiff_t{Q} * Width : 0,
                                    to_values = stacked ? std::ptrdiff_t{Q + K} * Width : 0;

    static constexpr std::size_t rounded(int n) { return Options.bias ? detail::rounded_bias_size<T>(n) : 0; }
    static constexpr buffer derived[] = {buffer::for_forward("queries forward", packed_size(Width, Q), dtype_of<T>),
                                         buffer::for_backward("queries backward", packed_size(Q, Width), dtype_of<T>),
                                         buffer::for_forward("keys forward", packed_size(KeyWidth, K), dtype_of<T>),
                                         buffer::for_backward("keys backward", packed_size(K, KeyWidth), dtype_of<T>),
                                         buffer::for_forward("values forward", packed_size(KeyWidth, K), dtype_of<T>),
                                         buffer::for_backward("values backward", packed_size(K, KeyWidth), dtype_of<T>),
                                         buffer::for_forward("out_proj forward", packed_size(Q, Width), dtype_of<T>),
                                         buffer::for_backward("out_proj backward", packed_size(Width, Q), dtype_of<T>),
                                         buffer::for_forward("queries bias", rounded(Q), dtype_of<T>),
                                         buffer::for_forward("keys bias", rounded(K), dtype_of<T>),
                                         buffer::for_forward("values bias", rounded(K), dtype_of<T>),
                                         buffer::for_forward("out_proj bias", rounded(Width), dtype_of<T>)};
    static constexpr buffer extras[] = {{"queries", std::size_t{Tokens} * Q, dtype_of<T>},
                                        {"keys", std::size_t{KeyTokens} * K, dtype_of<T>},
                                        {"values", std::size_t{KeyTokens} * K, dtype_of<T>},
                                        {"heads", std::size_t{Tokens} * Q, dtype_of<T>},
                                        {"log sums", std::size_t{Tokens} * heads.heads, dtype_of<number>}};
    static constexpr buffer workspace[] = {{"queries' gradient", std::size_t{Tokens} * Q, dtype_of<T>},
                                           {"keys' gradient", std::size_t{KeyTokens} * K, dtype_of<T>},
                                           {"values' gradient", std::size_t{KeyTokens} * K, dtype_of<T>},
                                           {"heads' gradient", std::size_t{Tokens} * Q, dtype_of<T>}};

    static constexpr std::int64_t projections =
        std::int64_t{4} * Tokens * Width * Q + std::int64_t{4} * KeyTokens * KeyWidth * K;
    static constexpr work cost = detail::cost_of_attention<T, Options>(
        heads, Tokens, KeyTokens, projections, std::int64_t{Tokens} * (Q + Width) + std::int64_t{KeyTokens} * 2 * K,
        std::int64_t{Tokens} * (2 * Width + 4 * Q) + std::int64_t{KeyTokens} * (KeyWidth + 4 * K));

    template <class C>
    static void prepare(const C& c, int samples) {
      const int rows = samples * Tokens, key_rows = samples * KeyTokens;
      c.template prepare_multiply<T>(rows, Q, Width);
      c.template prepare_multiply<T>(rows, Width, Q);
      c.template prepare_multiply<T>(key_rows, K, KeyWidth);
      c.template prepare_multiply<T>(key_rows, KeyWidth, K);
      c.template prepare_multiply_transposed<T>(Q, Width, rows);
      c.template prepare_multiply_transposed<T>(Width, Q, rows);
      c.template prepare_multiply_transposed<T>(K, KeyWidth, key_rows);
      c.template prepare_attention<T>(shape_of(samples));
    }

    template <class C, class A>
    static void refresh(const C& c, const A& a) noexcept {
      const number* queries = a.template parameter<indices::of_queries>();
      const number* keys = a.template parameter<indices::of_keys>() + to_keys;
      const number* values = a.template parameter<indices::of_values>() + to_values;
      const number* out = a.template parameter<indices::of_heads>();
      if (a.refreshes_for_backward()) {
        c.pack(Q, Width, queries, Width, false, a.template derived<1>());
        c.pack(K, KeyWidth, keys, KeyWidth, false, a.template derived<3>());
        c.pack(K, KeyWidth, values, KeyWidth, false, a.template derived<5>());
        c.pack(Width, Q, out, Q, false, a.template derived<7>());
      }
      if (!a.refreshes_for_forward()) return;
      c.pack(Width, Q, queries, Width, true, a.template derived<0>());
      c.pack(KeyWidth, K, keys, KeyWidth, true, a.template derived<2>());
      c.pack(KeyWidth, K, values, KeyWidth, true, a.template derived<4>());
      c.pack(Q, Width, out, Q, true, a.template derived<6>());
      if constexpr (Options.bias) {
        const number *in_bias = a.template parameter<indices::in_bias>(),
                     *out_bias = a.template parameter<indices::out_bias>();
        detail::round_bias(c, Q, in_bias, a.template derived<8>());
        detail::round_bias(c, K, in_bias + Q, a.template derived<9>());
        detail::round_bias(c, K, in_bias + Q + K, a.template derived<10>());
        detail::round_bias(c, Width, out_bias, a.template derived<11>());
      }
    }

    template <class C, class A>
    static void forward(const C& c, const A& a) {
      T *q = a.template extra<0>(), *k = a.template extra<1>(), *v = a.template extra<2>(), *o = a.template extra<3>();
      const T *to_q = a.template derived<0>(), *to_k = a.template derived<2>(), *to_v = a.template derived<4>(),
              *to_y = a.template derived<6>();
      const T *x = a.template in<0>(), *memory = a.template in<1>();
      const int rows = a.samples() * Tokens, key_rows = a.samples() * KeyTokens;
      detail::project<indices::in_bias, 8>(c, a, rows, Q, Width, x, to_q, 0, q);
      detail::project<indices::in_bias, 9>(c, a, key_rows, K, KeyWidth, memory, to_k, Q, k);
      detail::project<indices::in_bias, 10>(c, a, key_rows, K, KeyWidth, memory, to_v, Q + K, v);
      const T *queries = q, *keys = k, *values = v;
      // change: an operation on attention probabilities
      c.attention(shape_of(a.samples()), queries, keys, values, on::lengths(a), o, a.template extra<4>());
      detail::project<indices::out_bias, 11>(c, a, rows, Width, Q, o, to_y, 0, a.out());
    }

    /// One token per sample. All attend to one memory, whose keys and values are computed at position 0.
    template <class C, class A>
    static void decode(const C& c, const A& a, int position) {
      T *q = a.template extra<0>(), *k = a.template extra<1>(), *v = a.template extra<2>(), *o = a.template extra<3>();
      const T *to_q = a.template derived<0>(), *to_k = a.template derived<2>(), *to_v = a.template derived<4>(),
              *to_y = a.template derived<6>();
      if (position == 0) {
        const T* memory = a.template in<1>();
        detail::project<indices::in_bias, 9>(c, a, KeyTokens, K, KeyWidth, memory, to_k, Q, k);
        detail::project<indices::in_bias, 10>(c, a, KeyTokens, K, KeyWidth, memory, to_v, Q + K, v);
      }
      detail::project<indices::in_bias, 8>(c, a, a.samples(), Q, Width, a.template in<0>(), to_q, 0, q);
      attention_shape shape = shape_of(a.samples());
      shape.queries = 1;
      shape.q.sample = shape.o.sample = Q;
      shape.k.sample = shape.v.sample = 0;
      const T *queries = q, *keys = k, *values = v;
      c.attention(shape, queries, keys, values, on::lengths(a), o, a.template extra<4>());
      detail::project<indices::out_bias, 11>(c, a, a.samples(), Width, Q, o, to_y, 0, a.out());
    }

    template <class C, class A>
    static void backward_input(const C& c, const A& a) {
      T *dx = a.template in_gradient<0>(), *dmemory = a.template in_gradient<1>();
      if (dx == nullptr && dmemory == nullptr) return;
      differentiate(c, a);
      const T *dq = a.template extra<0>(), *dk = a.template extra<1>(), *dv = a.template extra<2>();
      const T *by_q = a.template derived<1>(), *by_k = a.template derived<3>(), *by_v = a.template derived<5>();
      if (dx) c.multiply(a.samples() * Tokens, Width, Q, dq, by_q, dx, false);
      if (dmemory) {
        c.multiply(a.samples() * KeyTokens, KeyWidth, K, dk, by_k, dmemory, false);
        c.multiply(a.samples() * KeyTokens, KeyWidth, K, dv, by_v, dmemory, true);
      }
    }

    // change: an attention mask
    // The base calls these.
    static attention_shape shape_of(int samples) {
      constexpr attention_shape::strides q{std::ptrdiff_t{Tokens} * Q, heads.width, Q};
      constexpr attention_shape::strides k{std::ptrdiff_t{KeyTokens} * K, heads.width, K};
      return detail::shape_of_attention(samples, heads, Tokens, KeyTokens, Options.causal, q, k, q);
    }

    // Backward's input part runs if one of the inputs has a gradient.
    template <class A>
    static bool is_differentiated(const A& a) {
      return a.template in_gradient<0>() != nullptr || a.template in_gradient<1>() != nullptr;
    }
    // Overwrites q, k and v with their gradients.
    template <class C, class A>
    static void differentiate(const C& c, const A& a) {
      const T *q = a.template extra<0>(), *k = a.template extra<1>(), *v = a.template extra<2>();
      const T *o = a.template extra<3>(), *by_o = a.template derived<7>();
      const number* log_sums = a.template extra<4>();
      T *dq = a.template workspace<0>(), *dk = a.template workspace<1>(), *dv = a.template workspace<2>();
      T* d_o = a.template workspace<3>();
      c.multiply(a.samples() * Tokens, Q, Width, a.out_gradient(), by_o, d_o, false);
      c.attention_backward(shape_of(a.samples()), q, k, v, on::lengths(a), o, log_sums, static_cast<const T*>(d_o), dq,
                           dk, dv);
      const std::ptrdiff_t rows = std::ptrdiff_t{a.samples()} * Tokens,
                           key_rows = std::ptrdiff_t{a.samples()} * KeyTokens;
      c.copy(rows * Q, dq, a.template extra<0>());
      c.copy(key_rows * K, dk, a.template extra<1>());
      c.copy(key_rows * K, dv, a.template extra<2>());
    }

    template <class A>
    static std::array<detail::projection_gradient<T>, 4> projections_of(const A& a) {
      number *q_bias = nullptr, *k_bias = nullptr, *v_bias = nullptr, *out_bias = nullptr;
      if constexpr (Options.bias) {
        q_bias = a.template gradient<indices::in_bias>();
        k_bias = q_bias + Q;
        v_bias = k_bias + K;
        out_bias = a.template gradient<indices::out_bias>();
      }
      number* q_weight = a.template gradient<indices::of_queries>();
      number* k_weight = a.template gradient<indices::of_keys>() + to_keys;
      number* v_weight = a.template gradient<indices::of_values>() + to_values;
      const T *dq = a.template extra<0>(), *dk = a.template extra<1>(), *dv = a.template extra<2>();
      const T *o = a.template extra<3>(), *x = a.template in<0>(), *memory = a.template in<1>();
      return {{{dq, x, Q, Width, Tokens, q_weight, q_bias},
               {dk, memory, K, KeyWidth, KeyTokens, k_weight, k_bias},
               {dv, memory, K, KeyWidth, KeyTokens, v_weight, v_bias},
               {a.out_gradient(), o, Width, Q, Tokens, a.template gradient<indices::of_heads>(), out_bias}}};
    }
  };
};

}  // namespace gpipe
