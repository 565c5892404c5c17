#pragma once

#include <gpipe/core/descriptions/precision.hpp>
#include <gpipe/model/model.hpp>

namespace gpipe {

namespace broken {

template <class Model, bool Holds>
struct precision_enters_with_the_input {
  static_assert(Holds, "gpipe: a model computes in bf16 if its input does, and this one's is no float that could be "
                       "rounded");
};

}  // namespace broken

namespace detail {

template <class Edge>
inline constexpr bool rounds_to_bf16 = false;
template <class T, int... N>
inline constexpr bool rounds_to_bf16<tensor<T, N...>> = std::is_same_v<compute_type<T>, float>;

template <class Edge>
struct rounded_edge {
  using type = Edge;
};
template <int... N>
struct rounded_edge<tensor<float, N...>> {
  using type = tensor<bf16, N...>;
};

}  // namespace detail

/// The model in bf16: the same list of layers, of which each deduces from its input that it computes so. Slots, names
/// and first values are the model's; the data stay floats, which are rounded on their way in. See `precision`.
template <class Model>
struct in_bf16 {
  static_assert(sizeof(broken::precision_enters_with_the_input<
                       Model, detail::rounds_to_bf16<typename Model::entering>>) > 0);
  using entering = typename detail::rounded_edge<typename Model::entering>::type;
  using items = typename Model::items;
};

/// The model in both precisions, for a trainer whose `plan_options{.in = ...}` choose one at run time. Its kernels are
/// compiled twice.
template <class Model>
struct in_both {};

/// In what a network computes: in bf16 if any of its edges is.
constexpr precision precision_of(const network& net) {
  for (int v = 0; v < net.value_count; ++v)
    if (net.values[v].part.type == dtype::bf16) return precision::bf16;
  return precision::float32;
}

namespace detail {

template <class Model, precision In>
struct model_in {
  using type = Model;
};
template <class Model>
struct model_in<Model, precision::bf16> {
  using type = in_bf16<Model>;
};

template <class Model>
struct unwrapped {
  using model = Model;
  static constexpr bool both = false;
};
template <class Model>
struct unwrapped<in_both<Model>> {
  using model = Model;
  static constexpr bool both = true;
};

}  // namespace detail

}  // namespace gpipe
