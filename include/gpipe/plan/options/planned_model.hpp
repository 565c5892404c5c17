#pragma once

#include <gpipe/model/model.hpp>

namespace gpipe {

namespace broken {

template <class Model, bool Holds>
struct model_of_a_plan {
  static_assert(Holds, "gpipe: a plan's first argument is a model, such as "
                       "struct net : gpipe::model<gpipe::input<...>, ...> {}");
};

}  // namespace broken

namespace detail {

template <class Model, bool Mistaken>
struct planned_as {
  using type = Model;
  static constexpr bool mistaken = Mistaken;
};

/// What a plan of no model, or of no layer, goes on with, so that one mistake is one error.
struct any_layer {
  template <class In>
  struct on {
    using output = In;
  };
};
struct any_model : gpipe::model<input<float, 1>, any_layer> {};

template <class Model>
constexpr auto planned_model() {
  if constexpr (requires {
                  typename Model::entering;
                  typename Model::items;
                }) {
    return planned_as<std::conditional_t<(slots_of<Model> > 0), Model, any_model>, mistaken_model<Model>>{};
  } else {
    static_cast<void>(asserted<broken::model_of_a_plan<Model, false>>{});
    return planned_as<any_model, true>{};
  }
}

}  // namespace detail

}  // namespace gpipe
