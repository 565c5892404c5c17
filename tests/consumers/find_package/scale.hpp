#pragma once

#include <gpipe/layer.hpp>

/// A custom layer: each feature times a trained number.
struct scale {
  template <class In>
  struct on;

  template <class T, int N>
  struct on<gpipe::tensor<T, N>> {
    using output = gpipe::tensor<T, N>;
    using number = gpipe::compute_type<T>;
    static constexpr gpipe::parameter parameters[] = {{"gain", {N}, gpipe::initializer::ones()}};
    static constexpr gpipe::keep keeps{.input = true};
    static constexpr gpipe::work cost{
        .forward = N, .backward_input = N, .backward_parameters = 2 * N, .bytes = 2 * N * sizeof(T)};

    struct product {
      const T* x;
      const number* gain;
      T* y;
      GPIPE_HOST_DEVICE void operator()(std::ptrdiff_t i) const { y[i] = x[i] * gain[i % N]; }
    };
    struct contribution {
      gpipe::view<const T, N> x, dy;
      GPIPE_HOST_DEVICE number operator()(std::ptrdiff_t sample, std::ptrdiff_t j) const {
        return x(sample, j) * dy(sample, j);
      }
    };

    static void forward(const auto& context, const auto& a) {
      context.each(a.samples() * N, product{a.in(), a.template parameter<0>(), a.out()});
    }
    static void backward_input(const auto& context, const auto& a) {
      context.each(a.samples() * N, product{a.out_gradient(), a.template parameter<0>(), a.in_gradient()});
    }
    static void backward_parameters(const auto& context, const auto& a) {
      context.columns(a.samples(), N, contribution{{a.in()}, {a.out_gradient()}}, a.template gradient<0>());
    }
  };
};
