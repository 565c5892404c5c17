#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include <gpipe/layer/attention/attention_options.hpp>
#include <gpipe/layer/attention/projections.hpp>
#include <gpipe/layer/attention/rotary.hpp>
#include <gpipe/layer/contract/attention_shape.hpp>
#include <gpipe/layer/contract/bound.hpp>
#include <gpipe/layer/contract/operands.hpp>
#include <gpipe/layer/contract/panels.hpp>
#include <gpipe/layer/contract/row_parts.hpp>

namespace gpipe {

/// Self-attention with several heads (Vaswani et al., 2017), with the parameters of PyTorch's MultiheadAttention:
///
///     [q k v] = x P^T + p,   y = (softmax(q k^T / sqrt(w)) v of every head) O^T + o,   w the width of a head
///
///     input and output tensor<T, tokens, width>, in_proj_weight {(heads + 2 key_heads) w, width}, in_proj_bias,
///     out_proj_weight {width, heads w}, out_proj_bias {width}
///
/// Its kernel works block by block and never has the weights of all pairs of tokens (Dao et al., "FlashAttention",
/// 2022). It keeps x, q, k, v, the heads' output and one number for each row of the softmax. Backward computes the
/// weights again, and overwrites q, k and v with their gradients, which its parameter part reads.
///
///     q k v    [tokens][ query heads | key heads | value heads ]
///     heads    [tokens][ query heads ]
///
/// A row has all heads of a token: then one product makes q, k and v, and one each their gradients' dx and dP.
template <attention_options Options>
struct attention {
  template <class In>
  struct on;

  template <class T, int Tokens, int Width>
  requires(detail::is_floating(dtype_of<T>)) struct on<tensor<T, Tokens, Width>>
      : detail::attention_parameters<Options, Width, Width, detail::extents_of(Options, Width)>,
        detail::length_field<Options.padded, Tokens> {
    using own = detail::attention_parameters<Options, Width, Width, detail::extents_of(Options, Width)>;
    static_assert(detail::attention_promises<attention, Options, Width>::kept > 0);
    using output = tensor<T, Tokens, Width>;
    using number = compute_type<T>;
    static constexpr detail::attention_extents heads = detail::extents_of(Options, Width);
    static constexpr int Q = heads.queries(), K = heads.keys(), N = Q + 2 * K;  // columns
    static constexpr bool turns = Options.rotary != 0;

    static constexpr buffer derived[] = {{"in_proj forward", packed_size(Width, N), dtype_of<T>},
                                         {"in_proj backward", packed_size(N, Width), dtype_of<T>},
                                         {"out_proj forward", packed_size(Q, Width), dtype_of<T>},
                                         {"out_proj backward", packed_size(Width, Q), dtype_of<T>},
                                         {"angles", turns ? std::size_t{Tokens} * heads.width : 0, dtype_of<number>}};
    static constexpr buffer extras[] = {{"queries, keys, values", std::size_t{Tokens} * N, dtype_of<T>},
                                        {"heads", std::size_t{Tokens} * Q, dtype_of<T>},
                                        {"log sums", std::size_t{Tokens} * heads.heads, dtype_of<number>}};
    static constexpr buffer workspace[] = {{"gradients", std::size_t{Tokens} * N, dtype_of<T>},
                                           {"heads' gradient", std::size_t{Tokens} * Q, dtype_of<T>}};
    static constexpr keep keeps{.input = true};

    static constexpr std::int64_t projections = std::int64_t{2} * Tokens * Width * (N + Q);
    static constexpr std::int64_t pairs = detail::attended_pairs(Options.causal, Tokens, Tokens);
    static constexpr std::int64_t product = 2 * pairs * Q, softmax = 20 * pairs * heads.heads;
    static constexpr std::int64_t elements = std::int64_t{Tokens} * (2 * Width + 2 * N + 2 * Q);  // that forward moves
    static constexpr work cost{.forward = projections + 2 * product + softmax,
                               .backward_input = projections + 5 * product + 2 * softmax,
                               .backward_parameters = projections + std::int64_t{Tokens} * (N + Width),
                               .bytes = static_cast<std::int64_t>(sizeof(T)) * elements};

    template <class C>
    static void prepare(const C& c, int samples) {
      const int rows = samples * Tokens;
      c.template prepare_multiply<T>(rows, N, Width);
      c.template prepare_multiply<T>(rows, Width, N);
      c.template prepare_multiply<T>(rows, Width, Q);
      c.template prepare_multiply<T>(rows, Q, Width);
      c.template prepare_multiply_transposed<T>(N, Width, rows);
      c.template prepare_multiply_transposed<T>(Width, Q, rows);
      c.template prepare_attention<T>(shape_of(samples));
    }

    template <class C, class A>
    static void refresh(const C& c, const A& a) noexcept {
      const number *in = a.template parameter<own::of_queries>(), *out = a.template parameter<own::of_heads>();
      c.pack(Width, N, in, Width, true, a.template derived<0>());
      c.pack(N, Width, in, Width, false, a.template derived<1>());
      c.pack(Q, Width, out, Q, true, a.template derived<2>());
      c.pack(Width, Q, out, Q, false, a.template derived<3>());
      if constexpr (turns)
        c.each(std::ptrdiff_t{Tokens} * heads.width / 2,
               detail::tabulate_angles<number>{a.template derived<4>(), heads.width, Options.rotary});
    }

    template <class C, class A>
    static void forward(const C& c, const A& a) {
      T *qkv = a.template extra<0>(), *mixed = a.template extra<1>();
      const T *in_proj = a.template derived<0>(), *out_proj = a.template derived<2>();
      const int rows = a.samples() * Tokens;
      detail::project<own::in_bias>(c, a, rows, N, Width, a.in(), in_proj, 0, qkv);
      turn(c, a, qkv, false);
      c.attention(shape_of(a.samples()), qkv, qkv + Q, qkv + Q + K, lengths(a), mixed, a.template extra<2>());
      detail::project<own::out_bias>(c, a, rows, Width, Q, mixed, out_proj, 0, a.out());
    }

    template <class C, class A>
    static void backward_input(const C& c, const A& a) {
      T* const into = a.in_gradient();
      if (into == nullptr) return;
      differentiate(c, a);
      const T *gradients = a.template extra<0>(), *packed = a.template derived<1>();
      c.multiply(a.samples() * Tokens, Width, N, gradients, packed, into, false);
    }

    template <class C, class A>
    static void backward_parameters(const C& c, const A& a) {
      if (a.in_gradient() == nullptr) differentiate(c, a);
      detail::add_gradients(c, a.samples(), projections_of(a));
    }
    template <class C, class A>
    requires requires(const C& c, row_parts<T> in, number* out) { c.multiply_transposed(N, Width, 1, in, in, out); }
    static void backward_parameters(const C& c, const A& all, int micro_batches) {
      decltype(projections_of(all[0])) each[std::size_t{max_coalesced}];
      for (int m = 0; m < micro_batches; ++m) {
        if (all[m].in_gradient() == nullptr) differentiate(c, all[m]);
        each[m] = projections_of(all[m]);
      }
      detail::add_gradients(c, all[0].samples(), all[micro_batches - 1].samples(), micro_batches, each);
    }

    /// One token of each sample, behind `position` others, whose keys and values are in the first extra.
    static constexpr bool mixes_tokens = true;
    static constexpr int kept_extras = 1;
    template <class C, class A>
      requires(Options.causal && !Options.padded)
    static void decode(const C& c, const A& a, int position) {
      T *qkv = a.template extra<0>(), *row = a.template workspace<0>(), *mixed = a.template workspace<1>();
      const T *in_proj = a.template derived<0>(), *out_proj = a.template derived<2>();
      const int n = a.samples();
      detail::project<own::in_bias>(c, a, n, N, Width, a.in(), in_proj, 0, row);
      if constexpr (turns)
        c.rows(n, detail::turn_pairs<T>{row, a.template derived<4>() + std::ptrdiff_t{position} * heads.width, N,
                                        heads.heads + heads.key_heads, heads.width, 1, false});
      for (int i = 0; i < n; ++i)
        c.copy(N, row + std::ptrdiff_t{i} * N, qkv + (std::ptrdiff_t{i} * Tokens + position) * N);
      attention_shape shape = shape_of(n);
      shape.queries = 1, shape.keys = position + 1;
      shape.q = {N, heads.width, N}, shape.o = {Q, heads.width, Q};
      const T* const kept = qkv;
      c.attention(shape, static_cast<const T*>(row), kept + Q, kept + Q + K, nullptr, mixed, a.template extra<2>());
      detail::project<own::out_bias>(c, a, n, Width, Q, mixed, out_proj, 0, a.out());
    }

    static attention_shape shape_of(int samples) {
      constexpr attention_shape::strides qkv{std::ptrdiff_t{Tokens} * N, heads.width, N};
      constexpr attention_shape::strides mixed{std::ptrdiff_t{Tokens} * Q, heads.width, Q};
      return {samples,
              heads.heads,
              heads.key_heads,
              Tokens,
              Tokens,
              heads.width,
              Options.causal,
              1 / std::sqrt(static_cast<double>(heads.width)),
              qkv,
              qkv,
              qkv,
              mixed};
    }
    template <class A>
    static const std::int32_t* lengths(const A& a) {
      if constexpr (Options.padded) return a.template field<0, std::int32_t>();
      else return nullptr;
    }
    template <class C, class A>
    static void turn(const C& c, const A& a, T* qkv, bool back) {
      if constexpr (turns)
        c.rows(std::ptrdiff_t{a.samples()} * Tokens,
               detail::turn_pairs<T>{qkv, a.template derived<4>(), N, heads.heads + heads.key_heads, heads.width,
                                     Tokens, back});
    }

    // The gradients of q, k and v, from that of the output, in their place.
    template <class C, class A>
    static void differentiate(const C& c, const A& a) {
      T* const qkv = a.template extra<0>();
      const T *mixed = a.template extra<1>(), *out_proj = a.template derived<3>();
      T *gradients = a.template workspace<0>(), *of_mixed = a.template workspace<1>();
      const number* log_sums = a.template extra<2>();
      c.multiply(a.samples() * Tokens, Q, Width, a.out_gradient(), out_proj, of_mixed, false);
      const T* const kept = qkv;
      c.attention_backward(shape_of(a.samples()), kept, kept + Q, kept + Q + K, lengths(a), mixed, log_sums,
                           static_cast<const T*>(of_mixed), gradients, gradients + Q, gradients + Q + K);
      c.copy(std::ptrdiff_t{a.samples()} * Tokens * N, gradients, qkv);
      turn(c, a, qkv, true);
    }

    template <class A>
    static std::array<detail::projection_gradient<T>, 2> projections_of(const A& a) {
      number *in_bias = nullptr, *out_bias = nullptr;
      if constexpr (Options.bias) {
        in_bias = a.template gradient<own::in_bias>();
        out_bias = a.template gradient<own::out_bias>();
      }
      const T *gradients = a.template extra<0>(), *mixed = a.template extra<1>();
      return {{{gradients, a.in(), N, Width, Tokens, a.template gradient<own::of_queries>(), in_bias},
               {a.out_gradient(), mixed, Width, Q, Tokens, a.template gradient<own::of_heads>(), out_bias}}};
    }
  };
};

}  // namespace gpipe
