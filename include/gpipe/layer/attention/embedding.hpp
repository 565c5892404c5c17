#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <gpipe/layer/contract/bound.hpp>
#include <gpipe/layer/contract/extents.hpp>
#include <gpipe/layer/contract/operands.hpp>

namespace gpipe {

/// An option of `embedding`: its rows times the square root of their width, as in Vaswani et al., 2017, and Lingvo.
struct times_root_of_width {};

namespace broken {

template <class Layer, class Input, bool Holds, class... Position>
struct embedding_has_rows {
  static_assert((holds<Holds, Position..., Layer, Input>),
                "gpipe: embedding<Vocabulary, Width>: both the number of tokens and the width of a token's row must be "
                "at least 1");
};

}  // namespace broken

namespace detail {

/// The element type among the options of an embedding: float, unless it is named.
template <class... Options>
struct element_among {
  using type = float;
};
template <class First, class... Rest>
struct element_among<First, Rest...> : element_among<Rest...> {};
template <class T, class... Rest>
requires(element<T>) struct element_among<T, Rest...> {
  using type = T;
};

template <class T>
struct embedding_kernels {
  using value_type = T;
  // change: an element type; of tokens
  using input_type = std::int32_t;
  using number = compute_type<T>;
  static constexpr keep keeps{.input = true};
  struct numbers : row_sizes {
    bool scaled;

    number factor() const { return scaled ? static_cast<number>(std::sqrt(static_cast<double>(width))) : number(1); }
  };

  template <class C, class A>
  static void forward(const C& c, const A& a) {
    const numbers& sizes = a.sizes();
    c.rows(sizes.count(a.samples()),
           look_up{a.in(), a.template parameter<0>(), sizes.factor(), a.out(), sizes.width, sizes.scaled});
  }

  template <class C, class A>
  static void backward_parameters(const C& c, const A& a) {
    const numbers& sizes = a.sizes();
    c.add_rows(sizes.count(a.samples()), std::ptrdiff_t{sizes.width}, a.in(), a.out_gradient(), sizes.factor(),
               a.template gradient<0>());
  }

  struct look_up {
    const std::int32_t* tokens;
    const number* weight;
    number scale;
    T* out;
    std::ptrdiff_t width;
    bool scaled;
    std::ptrdiff_t row_width() const { return width; }
    template <class Team>
    GPIPE_HOST_DEVICE void operator()(std::ptrdiff_t row, const Team& team) const {
      const number *source = weight + std::ptrdiff_t{tokens[row]} * width, factor = scale;
      T* y = out + row * width;
      if (scaled) team.each(width, [=](std::ptrdiff_t i) { y[i] = source[i] * factor; });
      else team.each(width, [=](std::ptrdiff_t i) { y[i] = source[i]; });
    }
  };
};

}  // namespace detail

/// One row of the weight for each token, an integer below `Vocabulary`: PyTorch's Embedding.
///
///     input tensor<int32, ..., N>, output tensor<T, ..., N, Width>, weight {Vocabulary, Width}
///
/// Options, in any order: the element type T of the output (float), and `times_root_of_width`:
/// `embedding<32'000, 512, bf16, times_root_of_width>`. A step checks the tokens that the model reads from the data. No
/// gradient flows back to the tokens. The weight's gradient adds rows in ascending order of positions.
template <int Vocabulary, int Width = 0, class... Options>
struct embedding {
  using element = typename detail::element_among<Options...>::type;
  static constexpr bool scaled = (std::is_same_v<Options, times_root_of_width> || ...);
  static_assert(detail::is_floating(dtype_of<element>) &&
                    ((std::is_same_v<Options, element> || std::is_same_v<Options, times_root_of_width>)&&...),
                "gpipe: embedding<Vocabulary, Width, ...> has two options: times_root_of_width, and one of float, "
                "double and bf16");
  template <class In, class... Position>
  using refusal =
      detail::unless<(Vocabulary > 0 && Width > 0), broken::embedding_has_rows<embedding, In, false, Position...>>;

  template <class In>
  struct on;

  template <int... Extents>
  requires(sizeof...(Extents) > 0) struct on<tensor<std::int32_t, Extents...>>
      : of_kind<on<tensor<std::int32_t, Extents...>>, detail::embedding_kernels<element>> {
    static_assert(detail::accepted<refusal<tensor<std::int32_t, Extents...>>>);
    using output = tensor<element, Extents..., Width>;
    static constexpr auto elements = static_cast<std::int64_t>(output::size);
    static constexpr typename on::numbers sizes{detail::row_sizes_of<output>, scaled};

    static constexpr parameter parameters[] = {{"weight", {Vocabulary, Width}, initializer::normal(1)}};
    static constexpr std::int64_t input_below = Vocabulary;
    static constexpr work cost{.backward_parameters = elements,
                               .bytes = static_cast<std::int64_t>(2 * sizeof(element)) * elements};
  };
};

}  // namespace gpipe
