#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include <gpipe/core/descriptions/plan_choices.hpp>
#include <gpipe/model/layer_types.hpp>
#include <gpipe/model/model.hpp>
#include <gpipe/plan/cost/profile.hpp>

namespace gpipe {

namespace broken {

// change: a compile-time check
template <class Model, bool Holds>
struct model_of_a_plan {
  static_assert(Holds,
                "gpipe: a plan's first argument is a model, such as "
                "struct net : gpipe::model<gpipe::input<...>, ...> {}. If that is what it is, the error above is in "
                "the arguments of a layer: one whose arguments all have defaults needs <>, as in batch_norm<>, and "
                "linear<N> has its outputs alone");
};
template <int Stage, int First, int End, bool Holds>
struct cut_ascends {
  static_assert(Holds,
                "gpipe: a cut names ascending layers of the model, and no stage is empty (Stage, its First layer, "
                "the End of the stage)");
};
template <int Stages, int Layers, bool Holds>
struct cut_has_a_layer_for_each_stage {
  static_assert(Holds, "gpipe: a cut names the first layer of every stage but the first (Stages, Layers)");
};
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
template <int Stages, int Layers, bool Holds>
struct a_layer_for_each_stage {
  static_assert(Holds, "gpipe: a plan has at most as many stages as the model has layers (Stages, Layers)");
};
template <int MicroBatches, int MicroBatchSize, bool Holds>
struct micro_batches_hold_samples {
  static_assert(Holds, "gpipe: replicas x MicroBatches x MicroBatchSize are more samples than an int counts");
};
template <int Stages, int Devices, bool Holds>
struct every_stage_has_a_device {
  static_assert(Holds, "gpipe: on_devices<...> names a device for every stage (Stages, Devices)");
};
template <int Workers, int MaxWorkers, bool Holds>
struct workers_have_work {
  static_assert(Holds, "gpipe: the schedule has work for fewer workers (Workers, MaxWorkers); 0: as many as it has");
};
template <int GroupGradients, bool Holds>
struct gradients_grouped_by_fill_drain {
  static_assert(Holds,
                "gpipe: only fill-drain computes the parameter gradients of several micro-batches together: plan "
                "with schedule<fill_drain>, or leave out group_gradients<G>");
};
template <int GroupGradients, bool Holds>
struct gradients_grouped_without_recompute {
  static_assert(Holds,
                "gpipe: parameter gradients of several micro-batches are computed together only without "
                "recompute: add recompute<recompute_mode::never>, or leave out group_gradients<G>");
};
template <recompute_mode Mode, bool Holds>
struct recompute_of_layers_alone {
  static_assert(
      Holds, "gpipe: recompute_layers<...> names layers, and recompute<Mode> is for whole micro-batches: choose one");
};
template <bool Shared, bool Kept, bool Holds>
struct packed_weights_of_one_kind {
  static_assert(Holds,
                "gpipe: with_shared_packed_weights and with_kept_packed_weights contradict each other: choose one");
};
template <int Lists, bool Holds>
struct recompute_layers_of_one_list {
  static_assert(Holds,
                "gpipe: a plan has one recompute_layers<...>: write all patterns in one list, such as "
                "recompute_layers<\"h.*.mlp\", \"layer_norm\">");
};
template <int Stages, int Stage, std::int64_t BytesAllowed, std::int64_t SmallestLimit, bool Holds>
struct some_cut_fits_memory {
  static_assert(Holds,
                "gpipe: no cut into these stages fits the memory limit (Stages, Stage, BytesAllowed, SmallestLimit): "
                "raise the limit of this stage to SmallestLimit, and other limits by as many bytes, or choose "
                "recompute_mode::as_needed, or leave out recompute_layers<...> or group_gradients<G>; if SmallestLimit "
                "is 0 the model is large, and make_plan reports it");
};

}  // namespace broken

namespace detail {

template <class Model, bool Mistaken>
struct planned_as {
  using type = Model;
  static constexpr bool mistaken = Mistaken;
};

/// Replaces an invalid or empty model after its error, so that one mistake is one error.
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
    return planned_as<std::conditional_t<(layers_of<Model> > 0), Model, any_model>, mistaken_model<Model>>{};
  } else {
    static_cast<void>(asserted<broken::model_of_a_plan<Model, false>>{});
    return planned_as<any_model, true>{};
  }
}

/// The first stage of a custom cut that is empty or ends outside the model; -1: none.
template <class Cut>
constexpr int bad_stage(int layers) {
  for (int s = 0; s <= Cut::count; ++s) {
    const int begin = s == 0 ? 0 : Cut::between[s - 1], end = s == Cut::count ? layers : Cut::between[s];
    if (begin < 0 || end <= begin || end > layers) return s;
  }
  return -1;
}

/// Whether a plan uses a custom cut. An invalid one has its error here, and the plan continues with the best cut.
template <class Types, int Stages, int Layers>
constexpr bool takes_custom_cut() {
  using chosen = typename Types::custom_cut;
  constexpr int bad = bad_stage<chosen>(Layers);
  if constexpr (!Types::has_cut) {
    return false;
  } else if constexpr (chosen::count != Stages - 1) {
    static_cast<void>(asserted<broken::cut_has_a_layer_for_each_stage<Stages, chosen::count, false>>{});
    return false;
  } else if constexpr (bad >= 0) {
    constexpr int begin = bad == 0 ? 0 : chosen::between[bad - 1],
                  end = bad == chosen::count ? Layers : chosen::between[bad];
    static_cast<void>(asserted<broken::cut_ascends<bad, begin, end, false>>{});
    return false;
  } else {
    return true;
  }
}

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
