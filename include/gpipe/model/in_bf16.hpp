#pragma once

#include <gpipe/core/descriptions/plan_choices.hpp>
#include <gpipe/model/model.hpp>

namespace gpipe {

namespace broken {

template <class Model, bool Holds>
struct precision_enters_with_the_input {
  static_assert(Holds,
                "gpipe: a model computes in bf16 only if its input does, but this model's input is not a float, "
                "so it cannot be rounded to bf16: declare `using rounded = <the model with bf16 in its layers>`");
};

}  // namespace broken

namespace detail {

template <class Edge>
inline constexpr bool rounds_to_bf16 = false;
template <floating_tensor Tensor>
inline constexpr bool rounds_to_bf16<Tensor> = std::is_same_v<compute_type<typename Tensor::value_type>, float>;

template <class Edge>
struct rounded_edge {
  using type = Edge;
};
template <floating_tensor Tensor>
requires(rounds_to_bf16<Tensor>) struct rounded_edge<Tensor> {
  using type = with_element<Tensor, bf16>;
};

}  // namespace detail

/// Whether a model declares its form in bf16, as a model of tokens must: by `using rounded = ...`.
template <class Model>
concept says_its_rounded_form = requires {
  typename Model::rounded::items;
};

// assumes: half precision is bf16
/// The model in bf16: the same list of layers with an input in bf16, from which each layer deduces its types. Layers,
/// names and initial values do not change. The data stay floats and are rounded when they enter. See `precision`.
template <class Model>
struct in_bf16 {
  static_assert(
      sizeof(broken::precision_enters_with_the_input<Model, detail::rounds_to_bf16<typename Model::entering>>) > 0);
  using entering = typename detail::rounded_edge<typename Model::entering>::type;
  using items = typename Model::items;
};
template <class Model>
requires says_its_rounded_form<Model>
struct in_bf16<Model> {
  using rounded = typename Model::rounded;
  using entering = typename rounded::entering;
  using items = typename rounded::items;
};

/// The model in both precisions, for a trainer whose `plan_options{.precision = ...}` choose one at run time. Its
/// kernels are compiled twice.
template <class Model>
struct both_precisions {};

namespace detail {

/// The precision of a network: bf16 if any of its edges is bf16.
constexpr precision precision_of(const network& net) {
  for (int v = 0; v < net.value_count; ++v)
    if (net.values[v].part.type == dtype::bf16) return precision::bf16;
  return precision::float32;
}

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
struct unwrapped<both_precisions<Model>> {
  using model = Model;
  static constexpr bool both = true;
};

}  // namespace detail

}  // namespace gpipe
