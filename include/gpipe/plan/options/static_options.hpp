#pragma once

#include <type_traits>

#include <gpipe/core/units.hpp>
#include <gpipe/model/model.hpp>
#include <gpipe/model/promises.hpp>
#include <gpipe/model/structure/items.hpp>
#include <gpipe/plan/options/layer_pattern.hpp>
#include <gpipe/plan/options/options.hpp>
#include <gpipe/plan/options/plan_options.hpp>
#include <gpipe/plan/options/promises.hpp>
#include <gpipe/plan/schedule/any_schedule.hpp>

namespace gpipe {

class searched_schedule;

namespace broken {

template <class Optimizer, bool Holds>
struct optimizer_of_a_plan {
  static_assert(Holds,
                "gpipe: optimizer<type> needs an optimizer, such as adam: it has `moments`, the number of arrays "
                "that it keeps beside the parameters");
};
template <class Schedule, bool Holds>
struct schedule_of_a_plan {
  static_assert(Holds,
                "gpipe: schedule<type> needs a schedule, such as one_f_one_b, or a type of yours that fulfils "
                "gpipe::scheduler");
};
template <class Schedule, bool Holds>
struct schedule_is_searched_at_run_time {
  static_assert(Holds,
                "gpipe: a searched schedule is found at run time: give a trainer plan_options{.schedule = "
                "schedule_kind::searched}, or write its table into a file and make that a schedule of yours");
};
template <class Option, bool Holds>
struct option_of_a_plan {
  static_assert(Holds,
                "gpipe: a plan's options are stages<S>, micro_batches<M>, micro_batch_size<B>, recompute<mode>, "
                "schedule<type> and the others of gpipe/plan/options/options.hpp and static_options.hpp");
};

template <class Model, detail::text Pattern, bool Holds>
struct recomputed_layers_exist {
  static_assert(Holds,
                "gpipe: recompute_layers<...> has a pattern that no layer of the model matches (Model, Pattern): write "
                "the path of a layer or a group, with * for any part, such as \"h.*.mlp\", or a type, \"layer_norm\"");
};
template <class Model, detail::text Pattern, int Layer, bool Holds>
struct recomputed_layers_save_memory {
  static_assert(Holds,
                "gpipe: recompute_layers<...> has a pattern that names a loss or the last layer of the model (Model, "
                "Pattern, Layer): its backward follows directly, so nothing is saved; leave this layer out");
};

}  // namespace broken

// Compile-time options that take a type or several values. Those of one value are in options.hpp.

/// The stages have memory for the arrays of this optimizer: `optimizer<sgd>`. A trainer uses its own optimizer.
template <class Optimizer>
struct optimizer {
  static constexpr void choose(plan_options& o) {
    if constexpr (requires { o.optimizer_moments = Optimizer::moments; }) {
      o.optimizer_moments = Optimizer::moments;
      o.tensor_rule = detail::tensor_memory<Optimizer>();
    } else static_cast<void>(detail::asserted<broken::optimizer_of_a_plan<Optimizer, false>>{});
  }
};
/// A schedule that we ship, or a type of yours (see `scheduler`): `schedule<one_f_one_b>`.
template <class Schedule>
struct schedule {
  using type = Schedule;
  static constexpr void choose(plan_options& o) {
    if constexpr (scheduler<Schedule>) {
      o.schedule = detail::kind_of_schedule<Schedule>();
      o.custom_schedule = o.schedule == schedule_kind::custom ? &custom_schedule_of<Schedule> : nullptr;
    } else if constexpr (std::is_same_v<Schedule, searched_schedule>) {
      static_cast<void>(detail::asserted<broken::schedule_is_searched_at_run_time<Schedule, false>>{});
    } else {
      static_cast<void>(detail::asserted<broken::schedule_of_a_plan<Schedule, false>>{});
    }
  }
};
/// Costs are predicted for a device: `on_device<p100>`, or a `constexpr device_spec` of yours.
template <const device_spec& Device>
struct on_device {
  static constexpr void choose(plan_options& o) { o.device = Device; }
};
/// The device of each stage: `on_devices<h100, h100, l4>`.
template <const device_spec&... Devices>
struct on_devices {
  static constexpr device_spec devices[] = {Devices...};
  static constexpr void choose(plan_options& o) {
    o.devices = devices;
    o.device_count = sizeof...(Devices);
  }
};
/// Costs are taken from a profile.
template <class Table>
struct profiled {
  static constexpr void choose(plan_options& o) { o.profile = detail::profile_of<Table>; }
  template <class Model, int MicroBatchSize>
  static constexpr bool suits() {
    return detail::require_profile<Table, Model, MicroBatchSize>();
  }
};
/// Exactly these layers run forward again in every backward: `recompute_layers<"h.*.mlp", "layer_norm">`, by the path
/// of a layer or a group, or by type.
template <detail::text... Patterns>
struct recompute_layers {
  static constexpr void choose(plan_options& o) {
    o.recompute_layers = {};
    (o.recompute_layers.add(Patterns.letters), ...);
  }
  template <class Model, int MicroBatchSize>
  static constexpr bool suits() {
    return (names_layers<Model, Patterns>() && ...);
  }

 private:
  struct matched {
    bool names = false;
    int kept = -1;  // the last layer that always keeps its outputs
  };
  template <class Model>
  static constexpr matched match(const char* pattern) {
    const network& net = network_of<Model>;
    matched found;
    for (int l = 0; l < net.layer_count; ++l)
      if (detail::matches_layer(net, pattern, l)) {
        found.names = true;
        if (detail::always_keeps(net, l)) found.kept = l;
      }
    return found;
  }
  template <class Model, detail::text Pattern>
  static constexpr bool names_layers() {
    constexpr matched result = match<Model>(Pattern.letters);
    static_cast<void>(detail::asserted<broken::recomputed_layers_exist<Model, Pattern, result.names>>{});
    static_cast<void>(
        detail::asserted<broken::recomputed_layers_save_memory<Model, Pattern, result.kept, (result.kept < 0)>>{});
    return result.names && result.kept < 0;
  }
};
/// Your own cut: the first layer of every stage but the first. It implies the number of stages, too.
template <int... First>
struct cut_at {
  static constexpr int count = sizeof...(First);
  static constexpr int between[sizeof...(First) + 1] = {First...};
  static constexpr void choose(plan_options& o) { o.stages = count + 1; }
};

namespace detail {

template <class Option>
constexpr void choose(plan_options& options) {
  if constexpr (requires { Option::choose(options); }) Option::choose(options);
  else static_cast<void>(asserted<broken::option_of_a_plan<Option, false>>{});
}

template <class Option>
inline constexpr bool is_cut = false;
template <int... First>
inline constexpr bool is_cut<cut_at<First...>> = true;

template <class Option>
inline constexpr bool is_recompute_list = false;
template <text... Patterns>
inline constexpr bool is_recompute_list<recompute_layers<Patterns...>> = true;
/// A second list would replace the first.
template <class... Options>
inline constexpr int recompute_lists = (0 + ... + (is_recompute_list<Options> ? 1 : 0));

template <class... Options>
constexpr plan_options chosen() {
  plan_options options;
  // The number of stages of a cut is a default: `stages` overrides it in either order, and the two are compared later.
  ((is_cut<Options> ? choose<Options>(options) : void()), ...);
  ((is_cut<Options> ? void() : choose<Options>(options)), ...);
  static_cast<void>(sizeof...(Options));
  return options;
}

template <class Option, class Model, int MicroBatchSize>
constexpr bool suits() {
  if constexpr (requires { Option::template suits<Model, MicroBatchSize>(); })
    return Option::template suits<Model, MicroBatchSize>();
  else return true;
}

// The schedule as an object of its type, and the custom cut. The last of several counts, as with all options.
template <class... Options>
struct chosen_types {
  static constexpr fill_drain schedule(const plan_options&) { return {}; }
  using custom_cut = cut_at<>;
  static constexpr bool has_schedule = false, has_cut = false;
};
template <class First, class... Rest>
struct chosen_types<First, Rest...> : chosen_types<Rest...> {};
template <class Schedule, class... Rest>
struct chosen_types<schedule<Schedule>, Rest...> : chosen_types<Rest...> {
  static constexpr auto schedule(const plan_options& o) {
    if constexpr (chosen_types<Rest...>::has_schedule) return chosen_types<Rest...>::schedule(o);
    else if constexpr (!scheduler<Schedule>) return fill_drain{};  // which has its error above
    else if constexpr (kind_of_schedule<Schedule>() == schedule_kind::custom) return Schedule{};
    else return schedule_with<Schedule>({nullptr, o.chunks, o.warmup});
  }
  static constexpr bool has_schedule = true;
};
template <int... At, class... Rest>
struct chosen_types<cut_at<At...>, Rest...> : chosen_types<Rest...> {
  using custom_cut =
      std::conditional_t<chosen_types<Rest...>::has_cut, typename chosen_types<Rest...>::custom_cut, cut_at<At...>>;
  static constexpr bool has_cut = true;
};

template <class Option>
inline constexpr bool is_fold = false;
template <int W>
inline constexpr bool is_fold<workers<W>> = true;

/// The chosen schedule as an object, folded if workers were chosen.
template <class... Options>
constexpr auto schedule_in(const plan_options& o) {
  const auto whole = chosen_types<Options...>::schedule(o);
  if constexpr ((is_fold<Options> || ...)) return folded{whole, o.workers};
  else return whole;
}

}  // namespace detail

}  // namespace gpipe
