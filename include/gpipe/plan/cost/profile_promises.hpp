#pragma once

#include <cstddef>
#include <utility>

#include <gpipe/model/layer_types.hpp>
#include <gpipe/model/model.hpp>
#include <gpipe/plan/cost/profile.hpp>

namespace gpipe {

namespace broken {

template <int LayersOfModel, int LinesOfProfile, bool Holds>
struct profile_has_a_line_for_each_layer {
  static_assert(Holds, "gpipe: the profile is of another model: LinesOfProfile and LayersOfModel must be equal");
};
template <int SizeOfPlan, int SizeOfProfile, bool Holds>
struct profile_has_the_micro_batch_size {
  static_assert(Holds,
                "gpipe: the profile was measured with another micro-batch size (SizeOfProfile) than the plan's "
                "(SizeOfPlan): profile with the plan's size, or remove `profiled`");
};
template <int Line, int Position, bool Holds>
struct profile_is_in_order {
  static_assert(Holds, "gpipe: a profile needs one line per layer, in order, from position 0");
};
template <int Position, class Expected, class Given, bool Holds>
struct profile_names_the_layer {
  static_assert(Holds,
                "gpipe: the profile is of another model: at this Position it has the layer Given, but the model has "
                "Expected");
};
template <int Position, bool Holds>
struct profile_times_are_not_negative {
  static_assert(Holds, "gpipe: the profile has a negative time: give at least 0");
};

}  // namespace broken

namespace detail {

template <class Table, int Line, std::size_t... Indices>
constexpr auto letters_of(std::index_sequence<Indices...>) {
  return letters<Table::layers[Line].layer[Indices]...>{};
}

/// Whether the profile matches the model; if it does not, a static_assert fails.
template <class Table, class Model, int MicroBatchSize>
constexpr bool require_profile() {
  constexpr profile p = profile_of<Table>;
  constexpr profile_mismatch found = compare(p, network_of<Model>, MicroBatchSize);
  constexpr int line = found.line;
  if constexpr (found.error == profile_fault::length) {
    static_cast<void>(asserted<broken::profile_has_a_line_for_each_layer<layers_of<Model>, p.count, false>>{});
  } else if constexpr (found.error == profile_fault::micro_batch_size) {
    static_cast<void>(asserted<broken::profile_has_the_micro_batch_size<MicroBatchSize, p.micro_batch_size, false>>{});
  } else if constexpr (found.error == profile_fault::position) {
    static_cast<void>(asserted<broken::profile_is_in_order<line, p.layers[line].position, false>>{});
  } else if constexpr (found.error == profile_fault::layer) {
    using expected = typename bound_layer_type<Model, network_of<Model>.layers[line].type>::layer;
    using given = decltype(letters_of<Table, line>(std::make_index_sequence<p.layers[line].layer.size()>{}));
    static_cast<void>(asserted<broken::profile_names_the_layer<line, expected, given, false>>{});
  } else if constexpr (found.error == profile_fault::negative) {
    static_cast<void>(asserted<broken::profile_times_are_not_negative<line, false>>{});
  }
  return found.error == profile_fault::none;
}

}  // namespace detail

}  // namespace gpipe
