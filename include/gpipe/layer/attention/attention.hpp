#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include <gpipe/core/config.hpp>
#include <gpipe/core/numbers/math.hpp>
#include <gpipe/core/numbers/multiply_add.hpp>
#include <gpipe/core/tensors/dtype.hpp>
#include <gpipe/layer/attention/attention_options.hpp>
#include <gpipe/layer/contract/attention_shape.hpp>
#include <gpipe/layer/contract/bound.hpp>
#include <gpipe/layer/contract/operands.hpp>
#include <gpipe/layer/contract/panels.hpp>
#include <gpipe/layer/linear/linear.hpp>

namespace gpipe {

namespace detail {

/// Rotary positions (Su et al., 2021) in the layout of halves, as in GPT-NeoX and in Hugging Face's Llama: element i of
/// a head of width w and its partner i + w/2 are turned by an angle that grows with the token's position t,
///
///     angle = t base^(-2 i / w),   (a, b) -> (a cos - b sin, b cos + a sin)
///
/// so that the product of a query and a key depends on the distance of their positions alone. Backward turns back.
///
///     table  [tokens][ cos of w/2 angles | sin of w/2 angles ]
template <class Number>
struct tabulate_angles {
  Number* table;
  int width;
  double base;

  GPIPE_HOST_DEVICE void operator()(std::ptrdiff_t i) const {
    const std::ptrdiff_t half = width / 2, token = i / half, pair = i % half;
    const double angle = static_cast<double>(token) * math::pow(base, static_cast<double>(-2 * pair) / width);
    table[token * width + pair] = static_cast<Number>(math::cos(angle));
    table[token * width + half + pair] = static_cast<Number>(math::sin(angle));
  }
};

/// Turns the first `heads` heads of each row in place, or turns them back.
template <class T>
struct turn_pairs {
  using number = compute_type<T>;
  T* values;
  const number* table;
  std::ptrdiff_t stride;  ///< from row to row
  int heads, width, tokens;
  bool back;

  template <class Team>
  GPIPE_HOST_DEVICE void operator()(std::ptrdiff_t row, const Team& team) const {
    const std::ptrdiff_t half = width / 2;
    const number *cosine = table + row % tokens * width, *sine = cosine + half;
    const number direction = back ? number(-1) : number(1);
    T* x = values + row * stride;
    for (int head = 0; head < heads; ++head, x += width)
      team.each(half, [=](std::ptrdiff_t i) {
        const number a = x[i], b = x[half + i], c = cosine[i], s = direction * sine[i];
        x[i] = T(multiply_add(a, c, -(b * s)));
        x[half + i] = T(multiply_add(b, c, a * s));
      });
  }
};

template <class T, bool Padded>
struct attention_kernels : product_kernels<attention_kernels<T, Padded>, T> {
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
    constexpr weight_product<T> in_proj() const { return {extents().N, width}; }
    constexpr weight_product<T> out_proj() const { return {width, heads.queries()}; }
    attention_shape shape(int samples) const {
      const std::ptrdiff_t N = extents().N, Q = extents().Q;
      const attention_shape::strides qkv{tokens * N, heads.width, N}, mixed{tokens * Q, heads.width, Q};
      // change: an attention mask
      return shape_of_attention(samples, heads, tokens, tokens, causal, qkv, qkv, mixed);
    }
  };

  template <class C>
  static void prepare(const C& c, int samples, const numbers& sizes) {
    sizes.in_proj().prepare(c, samples * sizes.tokens);
    sizes.out_proj().prepare(c, samples * sizes.tokens);
    c.template prepare_attention<T>(sizes.shape(samples));
  }

  template <class C, class A>
  static void refresh(const C& c, const A& a) noexcept {
    const numbers& sizes = a.sizes();
    const number *in_weight = a.template parameter<0>(),
                 *out_weight = sizes.biased ? a.template parameter<2>() : a.template parameter<1>();
    if (a.refreshes_for_forward()) {
      sizes.in_proj().pack_forward(c, in_weight, a.template derived<0>(), in_bias(a), a.template derived<5>());
      sizes.out_proj().pack_forward(c, out_weight, a.template derived<2>(), out_bias(a), a.template derived<6>());
    }
    if (a.refreshes_for_backward()) {
      sizes.in_proj().pack_backward(c, in_weight, a.template derived<1>());
      sizes.out_proj().pack_backward(c, out_weight, a.template derived<3>());
    }
    if (sizes.rotary != 0)
      c.each(std::ptrdiff_t{sizes.tokens} * sizes.heads.width / 2,
             tabulate_angles<number>{a.template derived<4, number>(), sizes.heads.width, sizes.rotary});
  }

  template <class C, class A>
  static void forward(const C& c, const A& a) {
    const numbers& sizes = a.sizes();
    const auto [Tokens, Width, Q, K, N] = sizes.extents();
    T *qkv = a.template extra<0, T>(), *mixed = a.template extra<1, T>();
    project_in(c, a, a.samples() * Tokens, qkv);
    turn(c, a, qkv, false);
    // change: an operation on attention probabilities
    c.attention(sizes.shape(a.samples()), qkv, qkv + Q, qkv + Q + K, lengths_of<Padded>(a), mixed,
                a.template extra<2, number>());
    project_out(c, a, a.samples() * Tokens, mixed);
  }

  template <class C, class A>
  static void backward_input(const C& c, const A& a) {
    const numbers& sizes = a.sizes();
    T* const dx = a.in_gradient();
    if (dx == nullptr) return;
    differentiate(c, a);
    sizes.in_proj().apply_back(c, a.samples() * sizes.tokens, a.template extra<0, T>(), a.template derived<1>(), dx);
  }

  /// One token per sample, after `position` others, whose keys and values are in the first extra.
  template <class C, class A>
  requires(!Padded) static void decode(const C& c, const A& a, int position) {
    const numbers& sizes = a.sizes();
    const auto [Tokens, Width, Q, K, N] = sizes.extents();
    T *qkv = a.template extra<0, T>(), *row = a.template workspace<0, T>(), *mixed = a.template workspace<1, T>();
    const int n = a.samples();
    project_in(c, a, n, row);
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
    project_out(c, a, n, mixed);
  }

  template <class C, class A>
  static void project_in(const C& c, const A& a, int rows, T* qkv) {
    a.sizes().in_proj().apply(c, rows, a.in(), a.template derived<0>(), qkv, in_bias(a), a.template derived<5>());
  }
  template <class C, class A>
  static void project_out(const C& c, const A& a, int rows, const T* mixed) {
    a.sizes().out_proj().apply(c, rows, mixed, a.template derived<2>(), a.out(), out_bias(a), a.template derived<6>());
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

  // Overwrites q, k and v with their gradients.
  template <class C, class A>
  static void differentiate(const C& c, const A& a) {
    const numbers& sizes = a.sizes();
    const auto [Tokens, Width, Q, K, N] = sizes.extents();
    T* const qkv = a.template extra<0, T>();
    const T* mixed = a.template extra<1, T>();
    T *gradients = a.template workspace<0, T>(), *mixed_gradient = a.template workspace<1, T>();
    const number* log_sums = a.template extra<2, number>();
    sizes.out_proj().apply_back(c, a.samples() * Tokens, a.out_gradient(), a.template derived<3>(), mixed_gradient);
    const T* const kept = qkv;
    c.attention_backward(sizes.shape(a.samples()), kept, kept + Q, kept + Q + K, lengths_of<Padded>(a), mixed, log_sums,
                         static_cast<const T*>(mixed_gradient), gradients, gradients + Q, gradients + Q + K);
    c.copy(std::ptrdiff_t{a.samples()} * Tokens * N, gradients, qkv);
    turn(c, a, qkv, true);
  }

  template <class C, class A>
  static std::array<product_gradient<T>, 2> product_gradients(const C& c, const A& a) {
    const numbers& sizes = a.sizes();
    if (a.in_gradient() == nullptr) differentiate(c, a);
    number *const out_weight = sizes.biased ? a.template gradient<2>() : a.template gradient<1>(),
                  *const in_bias_gradient = sizes.biased ? a.template gradient<1>() : nullptr,
                  *const out_bias_gradient = sizes.biased ? a.template gradient<3>() : nullptr;
    const T *gradients = a.template extra<0, T>(), *mixed = a.template extra<1, T>();
    return {{{sizes.in_proj(), gradients, a.in(), sizes.tokens, a.template gradient<0>(), in_bias_gradient},
             {sizes.out_proj(), a.out_gradient(), mixed, sizes.tokens, out_weight, out_bias_gradient}}};
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
