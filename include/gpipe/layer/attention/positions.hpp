#pragma once

#include <cstddef>
#include <cstdint>

#include <gpipe/core/numbers/math.hpp>
#include <gpipe/core/numbers/multiply_add.hpp>
#include <gpipe/core/tensors/tensor.hpp>
#include <gpipe/layer/contract/bound.hpp>
#include <gpipe/layer/contract/extents.hpp>
#include <gpipe/layer/contract/operands.hpp>

namespace gpipe {

namespace detail {

/// The kernels of both positions, which add a row of `Kernels::table(a)` to each token.
template <class Kernels, class T>
struct position_kernels {
  template <class C, class A>
  static void forward(const C& c, const A& a) {
    const row_sizes sizes = a.sizes();
    c.rows(sizes.count(a.samples()), add_rows_of_table<T>{a.in(), Kernels::table(a), sizes.rows, sizes.width, a.out()});
  }
  template <class C, class A>
  static void decode(const C& c, const A& a, int position) {
    const std::ptrdiff_t width = a.sizes().width;
    c.rows(a.samples(), add_rows_of_table<T>{a.in(), Kernels::table(a) + position * width, 1, width, a.out()});
  }
  template <class C, class A>
  static void backward_input(const C& c, const A& a) {
    if (T* dx = a.in_gradient()) c.copy(a.samples() * a.sizes().elements(), a.out_gradient(), dx);
  }
};

template <class T>
struct learned_positions_kernels : position_kernels<learned_positions_kernels<T>, T> {
  using value_type = T;
  using numbers = row_sizes;

  template <class A>
  static const compute_type<T>* table(const A& a) {
    return a.template parameter<0>();
  }
  template <class C, class A>
  static void backward_parameters(const C& c, const A& a) {
    const std::ptrdiff_t elements = a.sizes().elements();
    c.columns(a.samples(), elements, row_entries<T>{a.out_gradient(), elements}, a.template gradient<0>());
  }
};

}  // namespace detail

/// Adds a trained row to each token, by its position: y_t = x_t + weight_t. A sequence may be shorter than the table.
///
///     input and output tensor<T, Tokens, Width>, weight {Rows, Width}, Tokens <= Rows
template <int Rows>
struct learned_positions {
  template <class In>
  struct on;

  template <class T, int Tokens, int Width>
  requires(detail::is_floating(dtype_of<T>)) struct on<tensor<T, Tokens, Width>>
      : of_kind<on<tensor<T, Tokens, Width>>, detail::learned_positions_kernels<T>> {
    static_assert(Tokens <= Rows, "gpipe: learned_positions<Rows>: a sequence has more tokens than the table has rows");
    using output = tensor<T, Tokens, Width>;
    static constexpr detail::row_sizes sizes{Tokens, Width};

    static constexpr parameter parameters[] = {{"weight", {Rows, Width}, initializer::normal(1)}};
    static constexpr int kept_extras = 0;
    static constexpr auto elements = static_cast<std::int64_t>(output::size);
    static constexpr work cost{.forward = elements,
                               .backward_parameters = elements,
                               .bytes = static_cast<std::int64_t>(2 * sizeof(T)) * elements};
  };
};

/// Adds waves to each token, by its position t, counted from 0 (Vaswani et al., 2017):
///
///     y_t[2i] = x_t[2i] + sin(t w_i),  y_t[2i + 1] = x_t[2i + 1] + cos(t w_i),   w_i = 10000^(-2i / Width)
///
/// Input and output tensor<T, Tokens, Width>. No parameters; the waves are in a table, which `refresh` writes.
struct sinusoidal_positions {
  template <class In>
  struct on;

  template <class T, int Tokens, int Width>
  requires(detail::is_floating(dtype_of<T>)) struct on<tensor<T, Tokens, Width>>
      : detail::position_kernels<on<tensor<T, Tokens, Width>>, T> {
    using output = tensor<T, Tokens, Width>;
    using number = compute_type<T>;
    static constexpr detail::row_sizes sizes{Tokens, Width};

    static constexpr buffer derived[] = {{"waves", output::size, dtype_of<number>}};
    static constexpr auto elements = static_cast<std::int64_t>(output::size);
    static constexpr work cost{.forward = elements, .bytes = static_cast<std::int64_t>(2 * sizeof(T)) * elements};

    template <class C, class A>
    static void refresh(const C& c, const A& a) noexcept {
      c.each((Width + 1) / 2, wave{a.template derived<0>()});
    }
    static constexpr int kept_extras = 0;
    template <class A>
    static const number* table(const A& a) {
      return a.template derived<0>();
    }

    /// A sine and its cosine are turned from one position to the next, because `refresh` runs after every update:
    /// sin(a + w) = sin a cos w + cos a sin w. Every 64th position is computed directly.
    struct wave {
      number* table;
      GPIPE_HOST_DEVICE void operator()(std::ptrdiff_t i) const {
        const double w = math::pow(1e4, -2.0 * static_cast<double>(i) / Width);
        const double sine_of_w = math::sin(w), cosine_of_w = math::cos(w);
        for (std::ptrdiff_t first = 0; first < Tokens; first += 64) {
          double sine = math::sin(static_cast<double>(first) * w), cosine = math::cos(static_cast<double>(first) * w);
          // Unrolled for a few positions, it would spill registers of a GPU.
          GPIPE_NOT_UNROLLED
          for (std::ptrdiff_t t = first; t < first + 64 && t < Tokens; ++t) {
            number* row = table + t * Width + 2 * i;
            row[0] = static_cast<number>(sine);
            if (2 * i + 1 < Width) row[1] = static_cast<number>(cosine);
            const double next = detail::multiply_add(sine, cosine_of_w, cosine * sine_of_w);
            cosine = detail::multiply_add(cosine, cosine_of_w, -(sine * sine_of_w));
            sine = next;
          }
        }
      }
    };
  };
};

}  // namespace gpipe
