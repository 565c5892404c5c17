#pragma once

#include <array>
#include <cstdint>
#include <type_traits>

#include <gpipe/layer/contract/bound.hpp>
#include <gpipe/layer/contract/extents.hpp>
#include <gpipe/layer/contract/operands.hpp>
#include <gpipe/layer/contract/panels.hpp>
#include <gpipe/layer/linear/weight_product.hpp>

namespace gpipe {

/// The option of a linear layer without a bias: `linear<512, no_bias>`.
struct no_bias {};

namespace detail {

template <int N, int K, class... Options>
struct linear_parameters {
  static constexpr parameter parameters[] = {{"weight", {N, K}, initializer::uniform(K)},
                                             {"bias", {N}, initializer::uniform(K)}};
};
template <int N, int K>
struct linear_parameters<N, K, no_bias> {
  static constexpr parameter parameters[] = {{"weight", {N, K}, initializer::uniform(K)}};
};

template <class T>
struct linear_kernels : product_kernels<linear_kernels<T>, T> {
  using value_type = T;
  using number = compute_type<T>;
  struct numbers : weight_product<T> {
    int rows;  ///< of a sample
    bool biased;
  };

  template <class C>
  static void prepare(const C& c, int samples, const numbers& sizes) {
    sizes.prepare(c, samples * sizes.rows);
  }

  template <class C, class A>
  static void refresh(const C& c, const A& a) noexcept {
    const number* weight = a.template parameter<0>();
    if (a.refreshes_for_forward())
      a.sizes().pack_forward(c, weight, a.template derived<0>(), bias_of(a), a.template derived<2>());
    if (a.refreshes_for_backward_input()) a.sizes().pack_backward(c, weight, a.template derived<1>());
  }

  template <class C, class A>
  static void forward(const C& c, const A& a) {
    a.sizes().apply(c, a.samples() * a.sizes().rows, a.in(), a.template derived<0>(), a.out(), bias_of(a),
                    a.template derived<2>());
  }

  template <class C, class A>
  static void backward_input(const C& c, const A& a) {
    if (T* dx = a.in_gradient())
      a.sizes().apply_back(c, a.samples() * a.sizes().rows, a.out_gradient(), a.template derived<1>(), dx);
  }

  template <class C, class A>
  static std::array<product_gradient<T>, 1> product_gradients(const C&, const A& a) {
    return {{{a.sizes(), a.out_gradient(), a.in(), a.sizes().rows, a.template gradient<0>(),
              a.sizes().biased ? a.template gradient<1>() : nullptr}}};
  }

 private:
  template <class A>
  static const number* bias_of(const A& a) {
    return a.sizes().biased ? a.template parameter<1>() : nullptr;
  }
};

}  // namespace detail

/// y = x W^T + b on the last extent, from K to N: PyTorch's Linear, with its layout and its initial values.
///
///     input tensor<T, ..., K>, output tensor<T, ..., N>, weight {N, K}, bias {N} unless the option is `no_bias`
///
/// Both products with the weight read a packed copy, made once per step. For bf16, packing rounds the weight.
template <int N, class... Options>
struct linear {
  static constexpr bool biased = sizeof...(Options) == 0;
  static_assert(sizeof...(Options) <= 1 && (std::is_same_v<Options, no_bias> && ...),
                "gpipe: linear<N> has one option: linear<N, no_bias>");

  template <class In>
  struct on;

  template <class T, int... Extents>
  requires(sizeof...(Extents) > 0 && detail::is_floating(dtype_of<T>)) struct on<tensor<T, Extents...>>
      : of_kind<on<tensor<T, Extents...>>, detail::linear_kernels<T>>,
        detail::linear_parameters<N, detail::last_extent<tensor<T, Extents...>>, Options...> {
    using layer = linear;
    using input = tensor<T, Extents...>;
    using output = detail::with_last<input, N>;
    static constexpr int K = detail::last_extent<input>, rows = detail::rows_in<input>;
    static constexpr typename on::numbers sizes{{N, K}, rows, biased};

    static constexpr buffer derived[] = {
        buffer::for_forward("forward", packed_size(K, N), dtype_of<T>),
        buffer::for_backward_input("backward", packed_size(N, K), dtype_of<T>),
        buffer::for_forward("bias", biased ? detail::rounded_bias_size<T>(N) : 0, dtype_of<T>)};
    static constexpr std::int64_t product = std::int64_t{2} * rows * K * N;
    static constexpr std::int64_t sums = biased ? std::int64_t{rows} * N : 0;
    static constexpr work cost{.forward = product + sums,
                               .backward_input = product,
                               .backward_parameters = product + sums,
                               .bytes = static_cast<std::int64_t>(sizeof(T)) * rows * (K + N),
                               .kind = work_kind::product};
  };
};

}  // namespace gpipe
