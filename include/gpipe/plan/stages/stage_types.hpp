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

#include <utility>

#include <gpipe/core/descriptions/recompute.hpp>
#include <gpipe/model/layer_types.hpp>
#include <gpipe/model/model.hpp>

namespace gpipe::detail {

/// `Count` layers of a stage that repeat one layer with one input.
template <class Bound, int Count>
struct layer_run {
  using layer = Bound;
  static constexpr int count = Count;
};

/// A stage as a type: a Hana tuple with an element for each *distinct* layer, in model order.
template <int Index, int First, int Last, class Layers>
struct stage {
  static constexpr int index = Index, first = First, last = Last;
  using layers = Layers;
};

/// A stage that keeps only its boundary inputs and runs forward again before backward: for all micro-batches, or for
/// all but the last forward one.
template <class Stage, recompute_mode Mode>
struct recomputed : Stage {
  using wrapped = Stage;
  static constexpr recompute_mode mode = Mode;
};

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

/// The tuple of a plan's stages.
template <class Plan>
struct stage_tuple {
  static constexpr recompute_mode mode =
      Plan::options.keeps_all() ? recompute_mode::never : Plan::options.recompute_whole();
  template <int... Indices>
  static constexpr auto make(std::integer_sequence<int, Indices...>) {
    return boost::hana::tuple<decltype(wrapped_stage<typename Plan::model, mode, Indices, Plan::cut().first[Indices],
                                                     Plan::cut().first[Indices + 1]>())...>{};
  }
  static constexpr auto make() { return make(std::make_integer_sequence<int, Plan::S>{}); }
};

}  // namespace gpipe::detail
