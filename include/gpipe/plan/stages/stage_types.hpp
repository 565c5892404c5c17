#pragma once

// Hana's tuple and the algorithms for the stages of a plan, which are types.
#include <gpipe/model/hana.hpp>

#include <boost/hana/at.hpp>
#include <boost/hana/equal.hpp>
#include <boost/hana/filter.hpp>
#include <boost/hana/fold.hpp>
#include <boost/hana/for_each.hpp>
#include <boost/hana/integral_constant.hpp>
#include <boost/hana/length.hpp>
#include <boost/hana/transform.hpp>
#include <boost/hana/tuple.hpp>
#include <boost/hana/unpack.hpp>

#include <cstddef>
#include <utility>

#include <gpipe/core/descriptions/plan_choices.hpp>
#include <gpipe/model/layer_types.hpp>
#include <gpipe/model/model.hpp>

namespace gpipe::detail {

/// `Count` layers of a stage that repeat one layer with one input.
template <class Bound, int Count>
struct layer_run {
  using layer = Bound;
  static constexpr int count = Count;
};

/// A stage as a type: a Hana tuple with one element per *distinct* layer, in model order.
template <int Index, int First, int Last, class Layers>
struct stage {
  static constexpr int index = Index, first = First, last = Last;
  using layers = Layers;
};

/// A stage that runs forward again before backward: the given layers, by their numbers in the model, of every
/// micro-batch; or, without a list, the whole stage for the micro-batches of the mode, which keep the stage's inputs
/// only.
template <class Stage, recompute_mode Mode, int... Layers>
struct recomputed : Stage {
  using wrapped = Stage;
  static constexpr recompute_mode mode = Mode;
  static constexpr bool by_layer = sizeof...(Layers) > 0;
  static constexpr auto recomputed_layers = boost::hana::tuple_c<int, Layers...>;
};

// The layers of a stage that a plan recomputes one by one, in model order.
template <class Plan, int First, int Last>
constexpr auto recomputed_between() {
  struct {
    int count = 0;
    int layer[static_cast<std::size_t>(Last - First)]{};
  } found;
  for (int l = First; Plan::cut().recomputed_before != nullptr && l < Last; ++l)
    if (Plan::cut().recomputed_before[l] >= 0) found.layer[found.count++] = l;
  return found;
}

// The distinct layer types of the layers [First, Last), in model order: their numbers in the network, and how many
// layers each has.
template <class Model, int First, int Last>
constexpr auto types_between() {
  struct {
    int count = 0;
    int type[static_cast<std::size_t>(Last - First)]{}, times[static_cast<std::size_t>(Last - First)]{};
  } found;
  for (int l = First; l < Last; ++l) {
    const int type = network_of<Model>.layers[l].type;
    int i = 0;
    while (i < found.count && found.type[i] != type) ++i;
    if (i == found.count) found.type[found.count++] = type;
    ++found.times[i];
  }
  return found;
}

template <class Model, int Index, int First, int Last, int... Indices>
constexpr auto make_stage(std::integer_sequence<int, Indices...>) {
  constexpr auto found = types_between<Model, First, Last>();
  return stage<Index, First, Last,
               boost::hana::tuple<layer_run<bound_layer_type<Model, found.type[Indices]>, found.times[Indices]>...>>{};
}

template <class Model, recompute_mode Mode, int Index, int First, int Last>
constexpr auto wrapped_stage() {
  constexpr int distinct = types_between<Model, First, Last>().count;
  using plain = decltype(make_stage<Model, Index, First, Last>(std::make_integer_sequence<int, distinct>{}));
  if constexpr (Mode == recompute_mode::never) return plain{};
  else return recomputed<plain, Mode>{};
}

template <class Plan, class Stage, int... Indices>
constexpr auto wrapped_by_layer(std::integer_sequence<int, Indices...>) {
  constexpr auto found = recomputed_between<Plan, Stage::first, Stage::last>();
  return recomputed<Stage, recompute_mode::as_needed, found.layer[Indices]...>{};
}

/// The tuple of a plan's stages.
template <class Plan>
struct stage_tuple {
  static constexpr recompute_mode mode =
      Plan::options.keeps_all() ? recompute_mode::never : Plan::options.recompute_whole();
  template <int Index, int First, int Last>
  static constexpr auto stage_of() {
    constexpr int layers = recomputed_between<Plan, First, Last>().count;
    if constexpr (layers == 0) return wrapped_stage<typename Plan::model, mode, Index, First, Last>();
    else {
      using plain = decltype(wrapped_stage<typename Plan::model, recompute_mode::never, Index, First, Last>());
      return wrapped_by_layer<Plan, plain>(std::make_integer_sequence<int, layers>{});
    }
  }
  template <int... Indices>
  static constexpr auto make(std::integer_sequence<int, Indices...>) {
    return boost::hana::tuple<
        decltype(stage_of<Indices, Plan::cut().first[Indices], Plan::cut().first[Indices + 1]>())...>{};
  }
  static constexpr auto make() { return make(std::make_integer_sequence<int, Plan::S>{}); }
};

}  // namespace gpipe::detail
