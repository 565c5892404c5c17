#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include <gpipe/layer/attention/attention_base.hpp>
#include <gpipe/layer/attention/attention_options.hpp>
#include <gpipe/layer/attention/projections.hpp>
#include <gpipe/layer/attention/rotary.hpp>
#include <gpipe/layer/contract/attention_shape.hpp>
#include <gpipe/layer/contract/bound.hpp>
#include <gpipe/layer/contract/operands.hpp>
#include <gpipe/layer/contract/panels.hpp>
#include <gpipe/layer/contract/row_parts.hpp>

namespace gpipe {

namespace detail {

template <class T, bool Padded>
struct attention_kernels : attention_base<attention_kernels<T, Padded>, T, Padded> {
  using value_type = T;
  using number = compute_type<T>;

  struct numbers {
    int tokens, width;
    attention_extents heads;
    bool causal, biased;
    double rotary;

    /// Rows, and columns: of x, of queries, of keys, of all three projections.
    struct row_extents {
      int Tokens, Width, Q, K, N;
    };
    constexpr row_extents extents() const {
      return {tokens, width, heads.queries(), heads.keys(), heads.queries() + 2 * heads.keys()};
    }
    attention_shape shape(int samples) const {
      const std::ptrdiff_t N = extents().N, Q = extents().Q;
      const attention_shape::strides qkv{tokens * N, heads.width, N}, mixed{tokens * Q, heads.width, Q};
      // change: an attention mask
      return shape_of_attention(samples, heads, tokens, tokens, causal, qkv, qkv, mixed);
    }
  };

  template <class C>
  static void prepare(const C& c, int samples, const numbers& sizes) {
    const auto [Tokens, Width, Q, K, N] = sizes.extents();
    const int rows = samples * Tokens;
    c.template prepare_multiply<T>(rows, N, Width);
    c.template prepare_multiply<T>(rows, Width, N);
    c.template prepare_multiply<T>(rows, Width, Q);
    c.template prepare_multiply<T>(rows, Q, Width);
    c.template prepare_multiply_transposed<T>(N, Width, rows);
    c.template prepare_multiply_transposed<T>(Width, Q, rows);
    c.template prepare_attention<T>(sizes.shape(samples));
  }

  template <class C, class A>
  static void refresh(const C& c, const A& a) noexcept {
    const numbers& sizes = a.sizes();
    const auto [Tokens, Width, Q, K, N] = sizes.extents();
    const number *in_weight = a.template parameter<0>(),
                 *out_weight = sizes.biased ? a.template parameter<2>() : a.template parameter<1>();
    const bool forward = a.refreshes_for_forward();
    if (forward) {
      c.pack(Width, N, in_weight, Width, true, a.template derived<0>());
      c.pack(Q, Width, out_weight, Q, true, a.template derived<2>());
    }
    if (a.refreshes_for_backward()) {
      c.pack(N, Width, in_weight, Width, false, a.template derived<1>());
      c.pack(Width, Q, out_weight, Q, false, a.template derived<3>());
    }
    if (sizes.biased && forward) {
      round_bias(c, N, in_bias(a), a.template derived<5>());
      round_bias(c, Width, out_bias(a), a.template derived<6>());
    }
    if (sizes.rotary != 0)
      c.each(std::ptrdiff_t{Tokens} * sizes.heads.width / 2,
             tabulate_angles<number>{a.template derived<4, number>(), sizes.heads.width, sizes.rotary});
  }

  template <class C, class A>
  static void forward(const C& c, const A& a) {
    const numbers& sizes = a.sizes();
    const auto [Tokens, Width, Q, K, N] = sizes.extents();
    T *qkv = a.template extra<0, T>(), *mixed = a.template extra<1, T>();
    const T *in_proj = a.template derived<0>(), *out_proj = a.template derived<2>();
    const int rows = a.samples() * Tokens;
    const T *in_rounded = a.template derived<5>(), *out_rounded = a.template derived<6>();
    project(c, rows, N, Width, a.in(), in_proj, in_bias(a), in_rounded, qkv);
    turn(c, a, qkv, false);
    // change: an operation on attention probabilities
    c.attention(sizes.shape(a.samples()), qkv, qkv + Q, qkv + Q + K, attention_kernels::lengths(a), mixed,
                a.template extra<2, number>());
    project(c, rows, Width, Q, mixed, out_proj, out_bias(a), out_rounded, a.out());
  }

  template <class C, class A>
  static void backward_input(const C& c, const A& a) {
    const numbers& sizes = a.sizes();
    const auto [Tokens, Width, Q, K, N] = sizes.extents();
    T* const dx = a.in_gradient();
    if (dx == nullptr) return;
    differentiate(c, a);
    const T *gradients = a.template extra<0, T>(), *packed = a.template derived<1>();
    c.multiply(a.samples() * Tokens, Width, N, gradients, packed, dx, false);
  }

  /// One token per sample, after `position` others, whose keys and values are in the first extra.
  template <class C, class A>
  requires(!Padded) static void decode(const C& c, const A& a, int position) {
    const numbers& sizes = a.sizes();
    const auto [Tokens, Width, Q, K, N] = sizes.extents();
    T *qkv = a.template extra<0, T>(), *row = a.template workspace<0, T>(), *mixed = a.template workspace<1, T>();
    const T *in_proj = a.template derived<0>(), *out_proj = a.template derived<2>();
    const int n = a.samples();
    const T *in_rounded = a.template derived<5>(), *out_rounded = a.template derived<6>();
    project(c, n, N, Width, a.in(), in_proj, in_bias(a), in_rounded, row);
    if (sizes.rotary != 0)
      c.rows(n, turn_pairs<T>{row, a.template derived<4, number>() + std::ptrdiff_t{position} * sizes.heads.width, N,
                              sizes.heads.heads + sizes.heads.key_heads, sizes.heads.width, 1, false});
    for (int i = 0; i < n; ++i)
      c.copy(N, row + std::ptrdiff_t{i} * N, qkv + (std::ptrdiff_t{i} * Tokens + position) * N);
    attention_shape shape = sizes.shape(n);
    shape.queries = 1, shape.keys = position + 1;
    shape.q = {N, sizes.heads.width, N}, shape.o = {Q, sizes.heads.width, Q};
    const T* const kept = qkv;
    c.attention(shape, static_cast<const T*>(row), kept + Q, kept + Q + K, nullptr, mixed,
                a.template extra<2, number>());
    project(c, n, Width, Q, mixed, out_proj, out_bias(a), out_rounded, a.out());
  }

  template <class A>
  static const number* in_bias(const A& a) {
    return a.sizes().biased ? a.template parameter<1>() : nullptr;
  }
  template <class A>
  static const number* out_bias(const A& a) {
    return a.sizes().biased ? a.template parameter<3>() : nullptr;
  }
  template <class C, class A>
  static void turn(const C& c, const A& a, T* qkv, bool back) {
    const numbers& sizes = a.sizes();
    const auto [Tokens, Width, Q, K, N] = sizes.extents();
    if (sizes.rotary != 0)
      c.rows(std::ptrdiff_t{a.samples()} * Tokens,
             turn_pairs<T>{qkv, a.template derived<4, number>(), N, sizes.heads.heads + sizes.heads.key_heads,
                           sizes.heads.width, Tokens, back});
  }

  template <class A>
  static bool is_differentiated(const A& a) {
    return a.in_gradient() != nullptr;
  }
  // Overwrites q, k and v with their gradients.
  template <class C, class A>
  static void differentiate(const C& c, const A& a) {
    const numbers& sizes = a.sizes();
    const auto [Tokens, Width, Q, K, N] = sizes.extents();
    T* const qkv = a.template extra<0, T>();
    const T *mixed = a.template extra<1, T>(), *out_proj = a.template derived<3>();
    T *gradients = a.template workspace<0, T>(), *mixed_gradient = a.template workspace<1, T>();
    const number* log_sums = a.template extra<2, number>();
    c.multiply(a.samples() * Tokens, Q, Width, a.out_gradient(), out_proj, mixed_gradient, false);
    const T* const kept = qkv;
    c.attention_backward(sizes.shape(a.samples()), kept, kept + Q, kept + Q + K, attention_kernels::lengths(a), mixed,
                         log_sums, static_cast<const T*>(mixed_gradient), gradients, gradients + Q, gradients + Q + K);
    c.copy(std::ptrdiff_t{a.samples()} * Tokens * N, gradients, qkv);
    turn(c, a, qkv, true);
  }

  template <class A>
  static std::array<projection_gradient<T>, 2> projections_of(const A& a) {
    const numbers& sizes = a.sizes();
    const auto [Tokens, Width, Q, K, N] = sizes.extents();
    number *const in_bias_gradient = sizes.biased ? a.template gradient<1>() : nullptr,
                  *const out_bias_gradient = sizes.biased ? a.template gradient<3>() : nullptr;
    const T *gradients = a.template extra<0, T>(), *mixed = a.template extra<1, T>();
    return {{{gradients, a.in(), N, Width, Tokens, a.template gradient<0>(), in_bias_gradient},
             {a.out_gradient(), mixed, Width, Q, Tokens,
              sizes.biased ? a.template gradient<2>() : a.template gradient<1>(), out_bias_gradient}}};
  }
};

}  // namespace detail

/// Self-attention with several heads (Vaswani et al., 2017), with the parameters of PyTorch's MultiheadAttention:
///
///     [q k v] = x P^T + p,   y = (softmax(q k^T / sqrt(w)) v of every head) O^T + o,   w the width of a head
///
///     input and output tensor<T, tokens, width>, in_proj_weight {(heads + 2 key_heads) w, width}, in_proj_bias,
///     out_proj_weight {width, heads w}, out_proj_bias {width}
///
/// Its kernel works block by block and never stores the weights of all pairs of tokens (Dao et al., "FlashAttention",
/// 2022). It keeps x, q, k, v, the heads' output and one number per row of the softmax. Backward computes the
/// weights again, and overwrites q, k and v with their gradients, which its parameter part reads.
///
///     q k v    [tokens][ query heads | key heads | value heads ]
///     heads    [tokens][ query heads ]
///
/// A row has all heads of a token, so that one product makes q, k and v, and one each makes dx and dP.
template <attention_options Options = detail::no_heads>
struct attention {
  template <class In>
  struct on;

  template <class T, int Tokens, int Width>
  requires(detail::is_floating(dtype_of<T>)) struct on<tensor<T, Tokens, Width>>
      : of_kind<on<tensor<T, Tokens, Width>>, detail::attention_kernels<T, Options.padded>>,
        detail::attention_parameters<Options, Width, Width, detail::extents_of(Options, Width)>,
        detail::length_field<Options.padded, Tokens> {
    using indices = detail::attention_parameters<Options, Width, Width, detail::extents_of(Options, Width)>;
    static_assert(detail::attention_promises<attention, Options, Width>::kept > 0);
    using output = tensor<T, Tokens, Width>;
    using number = compute_type<T>;
    static constexpr detail::attention_extents heads = detail::extents_of(Options, Width);
    static constexpr int Q = heads.queries(), K = heads.keys(), N = Q + 2 * K;  // columns
    static constexpr bool turns = Options.rotary != 0;
    static constexpr std::size_t rounded(int n) { return Options.bias ? detail::rounded_bias_size<T>(n) : 0; }
    static constexpr typename on::numbers sizes{Tokens, Width, heads, Options.causal, Options.bias, Options.rotary};

    static constexpr buffer derived[] = {buffer::for_forward("in_proj forward", packed_size(Width, N), dtype_of<T>),
                                         buffer::for_backward("in_proj backward", packed_size(N, Width), dtype_of<T>),
                                         buffer::for_forward("out_proj forward", packed_size(Q, Width), dtype_of<T>),
                                         buffer::for_backward("out_proj backward", packed_size(Width, Q), dtype_of<T>),
                                         {"angles", turns ? std::size_t{Tokens} * heads.width : 0, dtype_of<number>},
                                         buffer::for_forward("in_proj bias", rounded(N), dtype_of<T>),
                                         buffer::for_forward("out_proj bias", rounded(Width), dtype_of<T>)};
    static constexpr buffer extras[] = {{"queries, keys, values", std::size_t{Tokens} * N, dtype_of<T>},
                                        {"heads", std::size_t{Tokens} * Q, dtype_of<T>},
                                        {"log sums", std::size_t{Tokens} * heads.heads, dtype_of<number>}};
    static constexpr buffer workspace[] = {{"gradients", std::size_t{Tokens} * N, dtype_of<T>},
                                           {"heads' gradient", std::size_t{Tokens} * Q, dtype_of<T>}};

    static constexpr std::int64_t projections = std::int64_t{2} * Tokens * Width * (N + Q);
    static constexpr work cost =
        detail::cost_of_attention<T, Options>(heads, Tokens, Tokens, projections, std::int64_t{Tokens} * (N + Width),
                                              std::int64_t{Tokens} * (2 * Width + 2 * N + 2 * Q));
    static constexpr bool mixes_tokens = true;
    static constexpr bool decodes = Options.causal && !Options.padded;
    static constexpr int kept_extras = 1;
  };
};

}  // namespace gpipe
