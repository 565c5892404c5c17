#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <type_traits>

#include <gpipe/layer/contract/bound.hpp>

namespace gpipe {

namespace detail {

/// The parameters of a layer, its matrices with the rules' first values. A part of a larger layer is drawn as rows of
/// the whole.
template <class On, class Rules>
struct redrawn_parameters {
  static constexpr std::size_t count = sizeof(On::parameters) / sizeof(parameter);

  static constexpr std::array<parameter, count> redrawn() {
    using enum initializer::kind;
    std::array<parameter, count> out{};
    std::size_t matrices = 0;
    for (std::size_t i = 0; i < count; ++i) {
      out[i] = On::parameters[i];
      const bool last = out[i].first.outputs_last;
      if (out[i].extents.rank > 1) {
        out[i].first = Rules::rule(matrices++).with_outputs_last(last);
        if constexpr (requires { On::all_rows; }) {
          shape whole = out[i].extents;
          whole.extents[0] = On::all_rows;
          out[i].first = out[i].first.of(whole);
        }
      } else if (out[i].first.drawn != ones && out[i].first.drawn != constant) out[i].first = initializer::zeros();
    }
    return out;
  }

  static constexpr std::array<parameter, count> parameters = redrawn();
};

/// The layer with these rules.
template <class Layer, class Rules>
struct initialized_item {
  using shown_as = Layer;

  template <class In, class... Position>
  using refusal = typename refusal_of<Layer, In, Position...>::type;

  template <class In>
  struct on;
  template <class In>
  requires(requires { Layer::template on<In>::parameters; }) struct on<In>
      : Layer::template on<In>, redrawn_parameters<typename Layer::template on<In>, Rules> {
    using redrawn_parameters<typename Layer::template on<In>, Rules>::parameters;
    // It is of the layer's kind, if there is one.
    using declared_by = std::conditional_t<is_of_kind<typename Layer::template on<In>>, on, void>;
  };
};

/// Rules as a type, because nvcc finds no specialization for values of a class.
template <initializer... Rules>
struct drawn_by {
  static constexpr initializer rule(std::size_t matrix) {
    constexpr initializer rules[] = {Rules...};
    return rules[(std::min)(matrix, sizeof...(Rules) - 1)];
  }
  template <class Layer>
  using around = initialized_item<Layer, drawn_by>;
};

/// A wrapper, such as a tie, around a part that has rules.
template <class Outer, class Inner>
struct around_both {
  template <class Layer>
  using around = typename Outer::template around<typename Inner::template around<Layer>>;
};

/// A layer that is a list, such as a sliced head: the rules draw each of its parts with parameters.
template <class Layer, class Rules>
requires requires { typename Layer::template with_parts<Rules>; }
struct initialized_item<Layer, Rules> {
  static constexpr bool is_scope = true;
  using items = typename Layer::template with_parts<Rules>;
  template <class Each>
  using with_parts = typename Layer::template with_parts<around_both<Each, Rules>>;
};

}  // namespace detail

/// The layer with other first values: its matrices are drawn by the rules, in the order of its parameters, the last
/// rule serves for all that remain, and biases begin at 0. Vectors that begin at 1 keep their values.
///
///     initialized<linear<64>, initializer::xavier()>
///     initialized<causal_attention<12>, initializer::deviation(0.02), initializer::deviation(0.02).over_root(24)>
///
/// It can replace the layer everywhere: `named<"fc", initialized<...>>`, `tied<"wte", initialized<...>>`. Everything
/// else is the layer's: paths, kernels, and its name in tables and profiles. The rules draw each slice of a sliced head
/// as rows of the whole.
template <class Layer, initializer... Rules>
struct initialized : detail::initialized_item<Layer, detail::drawn_by<Rules...>> {
  static_assert(sizeof...(Rules) > 0,
                "gpipe: initialized<Layer, ...> needs an initializer, such as initializer::xavier()");
};

}  // namespace gpipe
