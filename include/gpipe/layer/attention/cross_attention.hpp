#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include <gpipe/layer/attention/attention_options.hpp>
#include <gpipe/layer/contract/attention_shape.hpp>
#include <gpipe/layer/contract/bound.hpp>
#include <gpipe/layer/contract/operands.hpp>
#include <gpipe/layer/contract/panels.hpp>
#include <gpipe/layer/linear/linear.hpp>

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
      : detail::product_kernels<on<bundle<tensor<T, Tokens, Width>, tensor<T, KeyTokens, KeyWidth>>>, T>,
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
    static constexpr detail::weight_product<T> queries{Q, Width}, keys{K, KeyWidth}, heads_out{Width, Q};
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
      queries.prepare(c, samples * Tokens);
      keys.prepare(c, samples * KeyTokens);
      heads_out.prepare(c, samples * Tokens);
      c.template prepare_attention<T>(shape_of(samples));
    }

    template <class C, class A>
    static void refresh(const C& c, const A& a) noexcept {
      const number* to_q = a.template parameter<indices::of_queries>();
      const number* to_k = a.template parameter<indices::of_keys>() + to_keys;
      const number* to_v = a.template parameter<indices::of_values>() + to_values;
      const number* to_y = a.template parameter<indices::of_heads>();
      if (a.refreshes_for_backward()) {
        queries.pack_backward(c, to_q, a.template derived<1>());
        keys.pack_backward(c, to_k, a.template derived<3>());
        keys.pack_backward(c, to_v, a.template derived<5>());
        heads_out.pack_backward(c, to_y, a.template derived<7>());
      }
      if (!a.refreshes_for_forward()) return;
      queries.pack_forward(c, to_q, a.template derived<0>(), in_bias(a, 0), a.template derived<8>());
      keys.pack_forward(c, to_k, a.template derived<2>(), in_bias(a, Q), a.template derived<9>());
      keys.pack_forward(c, to_v, a.template derived<4>(), in_bias(a, Q + K), a.template derived<10>());
      heads_out.pack_forward(c, to_y, a.template derived<6>(), out_bias(a), a.template derived<11>());
    }

    template <class C, class A>
    static void forward(const C& c, const A& a) {
      project_memory(c, a, a.samples() * KeyTokens);
      attend(c, a, a.samples() * Tokens, shape_of(a.samples()));
    }

    /// One token per sample. All attend to one memory, whose keys and values are computed at position 0.
    template <class C, class A>
    static void decode(const C& c, const A& a, int position) {
      if (position == 0) project_memory(c, a, KeyTokens);
      attention_shape shape = shape_of(a.samples());
      shape.queries = 1;
      shape.q.sample = shape.o.sample = Q;
      shape.k.sample = shape.v.sample = 0;
      attend(c, a, a.samples(), shape);
    }

    template <class C, class A>
    static void project_memory(const C& c, const A& a, int rows) {
      const T *memory = a.template in<1>(), *to_k = a.template derived<2>(), *to_v = a.template derived<4>();
      keys.apply(c, rows, memory, to_k, a.template extra<1>(), in_bias(a, Q), a.template derived<9>());
      keys.apply(c, rows, memory, to_v, a.template extra<2>(), in_bias(a, Q + K), a.template derived<10>());
    }
    template <class C, class A>
    static void attend(const C& c, const A& a, int rows, const attention_shape& shape) {
      T *q = a.template extra<0>(), *o = a.template extra<3>();
      const T *to_q = a.template derived<0>(), *to_y = a.template derived<6>();
      queries.apply(c, rows, a.template in<0>(), to_q, q, in_bias(a, 0), a.template derived<8>());
      const T *kept_queries = q, *kept_keys = a.template extra<1>(), *kept_values = a.template extra<2>();
      // change: an operation on attention probabilities
      c.attention(shape, kept_queries, kept_keys, kept_values, detail::lengths_of<Options.padded>(a), o,
                  a.template extra<4>());
      heads_out.apply(c, rows, o, to_y, a.out(), out_bias(a), a.template derived<11>());
    }

    template <class C, class A>
    static void backward_input(const C& c, const A& a) {
      T *dx = a.template in_gradient<0>(), *dmemory = a.template in_gradient<1>();
      if (dx == nullptr && dmemory == nullptr) return;
      differentiate(c, a);
      const T *dq = a.template extra<0>(), *dk = a.template extra<1>(), *dv = a.template extra<2>();
      if (dx) queries.apply_back(c, a.samples() * Tokens, dq, a.template derived<1>(), dx);
      if (dmemory) {
        keys.apply_back(c, a.samples() * KeyTokens, dk, a.template derived<3>(), dmemory);
        keys.apply_back(c, a.samples() * KeyTokens, dv, a.template derived<5>(), dmemory, true);
      }
    }

    // change: an attention mask
    static attention_shape shape_of(int samples) {
      constexpr attention_shape::strides q{std::ptrdiff_t{Tokens} * Q, heads.width, Q};
      constexpr attention_shape::strides k{std::ptrdiff_t{KeyTokens} * K, heads.width, K};
      return detail::shape_of_attention(samples, heads, Tokens, KeyTokens, Options.causal, q, k, q);
    }

    /// The input projections' bias from an element on, or null.
    template <class A>
    static const number* in_bias(const A& a, int first) {
      if constexpr (Options.bias) return a.template parameter<indices::in_bias>() + first;
      else return nullptr;
    }
    template <class A>
    static const number* out_bias(const A& a) {
      if constexpr (Options.bias) return a.template parameter<indices::out_bias>();
      else return nullptr;
    }
    // Overwrites q, k and v with their gradients.
    template <class C, class A>
    static void differentiate(const C& c, const A& a) {
      const T *q = a.template extra<0>(), *k = a.template extra<1>(), *v = a.template extra<2>();
      const T* o = a.template extra<3>();
      const number* log_sums = a.template extra<4>();
      T *dq = a.template workspace<0>(), *dk = a.template workspace<1>(), *dv = a.template workspace<2>();
      T* d_o = a.template workspace<3>();
      heads_out.apply_back(c, a.samples() * Tokens, a.out_gradient(), a.template derived<7>(), d_o);
      c.attention_backward(shape_of(a.samples()), q, k, v, detail::lengths_of<Options.padded>(a), o, log_sums,
                           static_cast<const T*>(d_o), dq, dk, dv);
      const std::ptrdiff_t rows = std::ptrdiff_t{a.samples()} * Tokens,
                           key_rows = std::ptrdiff_t{a.samples()} * KeyTokens;
      c.copy(rows * Q, dq, a.template extra<0>());
      c.copy(key_rows * K, dk, a.template extra<1>());
      c.copy(key_rows * K, dv, a.template extra<2>());
    }

    template <class C, class A>
    static std::array<detail::product_gradient<T>, 4> product_gradients(const C& c, const A& a) {
      // Backward's input part runs if one of the inputs has a gradient.
      if (a.template in_gradient<0>() == nullptr && a.template in_gradient<1>() == nullptr) differentiate(c, a);
      number *q_bias = nullptr, *k_bias = nullptr, *v_bias = nullptr, *o_bias = nullptr;
      if constexpr (Options.bias) {
        q_bias = a.template gradient<indices::in_bias>();
        k_bias = q_bias + Q;
        v_bias = k_bias + K;
        o_bias = a.template gradient<indices::out_bias>();
      }
      number* q_weight = a.template gradient<indices::of_queries>();
      number* k_weight = a.template gradient<indices::of_keys>() + to_keys;
      number* v_weight = a.template gradient<indices::of_values>() + to_values;
      const T *dq = a.template extra<0>(), *dk = a.template extra<1>(), *dv = a.template extra<2>();
      const T *o = a.template extra<3>(), *x = a.template in<0>(), *memory = a.template in<1>();
      return {{{queries, dq, x, Tokens, q_weight, q_bias},
               {keys, dk, memory, KeyTokens, k_weight, k_bias},
               {keys, dv, memory, KeyTokens, v_weight, v_bias},
               {heads_out, a.out_gradient(), o, Tokens, a.template gradient<indices::of_heads>(), o_bias}}};
    }
  };
};

}  // namespace gpipe
