#pragma once

#include <type_traits>

#include <gpipe/core/units.hpp>
#include <gpipe/model/promises.hpp>
#include <gpipe/plan/cost/profile_promises.hpp>
#include <gpipe/plan/options/options.hpp>

namespace gpipe {

namespace broken {

template <class Optimizer, bool Holds>
struct optimizer_of_a_plan {
  static_assert(Holds, "gpipe: optimizer<type> names an optimizer, such as adam: it has `moments`, how many arrays "
                       "it keeps beside the parameters");
};
template <class Schedule, bool Holds>
struct schedule_of_a_plan {
  static_assert(Holds, "gpipe: schedule<type> names a schedule, such as one_f_one_b, or one of your own that is all "
                       "that gpipe::scheduler asks for");
};

}  // namespace broken

// Options of a plan, in any order.
/// S, 1 to the number of the model's slots.
template <int S>
struct stages {
  static constexpr void choose(plan_options& o) { o.stages = S; }
};
/// M, of every mini-batch and replica.
template <int M>
struct micro_batches {
  static constexpr void choose(plan_options& o) { o.micro_batches = M; }
};
/// B, the most samples of a micro-batch.
template <int B>
struct micro_batch_size {
  static constexpr void choose(plan_options& o) { o.micro_batch_size = B; }
};
/// Which micro-batches run forward a second time before backward.
template <recompute_mode Mode>
struct recompute {
  static constexpr void choose(plan_options& o) { o.recompute = Mode; }
};
/// In what it computes: `precision_is<precision::bf16>`.
template <precision In>
struct precision_is {
  static constexpr void choose(plan_options& o) { o.precision = In; }
};
/// Whose arrays the stages have room for: `optimizer<sgd>`. A trainer's own counts where there is one.
template <class Optimizer>
struct optimizer {
  static constexpr void choose(plan_options& o) {
    if constexpr (requires { o.optimizer_moments = Optimizer::moments; }) o.optimizer_moments = Optimizer::moments;
    else static_cast<void>(detail::asserted<broken::optimizer_of_a_plan<Optimizer, false>>{});
  }
};
/// A schedule that we ship, or one of your own (see `scheduler`): `schedule<one_f_one_b>`.
template <class Schedule>
struct schedule {
  using type = Schedule;
  static constexpr void choose(plan_options& o) {
    if constexpr (scheduler<Schedule>) {
      o.schedule = schedule_kind::custom;
      for (const schedule_kind kind : schedule_kinds)
        with_schedule(kind, [&](auto shipped) {
          if (std::is_same_v<decltype(shipped), Schedule>) o.schedule = kind;
        });
      o.custom_schedule = o.schedule == schedule_kind::custom ? &custom_schedule_of<Schedule> : nullptr;
    } else {
      static_cast<void>(detail::asserted<broken::schedule_of_a_plan<Schedule, false>>{});
    }
  }
};
/// Stages a worker, of the interleaved schedule.
template <int V>
struct chunks {
  static constexpr void choose(plan_options& o) { o.chunks = V; }
};
/// Workers that the schedule's own are folded onto, neighbours together: at most as many as it has; 0: these.
template <int W>
struct workers {
  static constexpr void choose(plan_options& o) { o.workers = W; }
};
/// Replicas of the pipeline, each with as many workers: every mini-batch is R x M micro-batches.
template <int R>
struct replicas {
  static_assert(R >= 1, "gpipe: a plan needs at least one replica of the pipeline");
  static constexpr void choose(plan_options& o) { o.replicas = R; }
};
/// Micro-batches whose parameter gradients a stage makes together: see `plan_options::coalesce`.
template <int G>
struct coalesce {
  static_assert(G >= 0 && G <= max_coalesced, "gpipe: coalesce<G> names 1 to 8 micro-batches, or 0: as many as pay");
  static constexpr void choose(plan_options& o) { o.coalesce = G; }
};
/// Costs are those of a device: `on_device<p100>`, or one described by a `constexpr device` of your own.
template <const device_spec& Device>
struct on_device {
  static constexpr void choose(plan_options& o) { o.device = Device; }
};
/// Stages are on these devices in turn: `on_devices<h100, h100, l4>`, one for each.
template <const device_spec&... Devices>
struct on_devices {
  static constexpr device_spec each[] = {Devices...};
  static constexpr void choose(plan_options& o) {
    o.devices = each;
    o.device_count = sizeof...(Devices);
  }
};
/// Costs are those of a profile.
template <class Table>
struct profiled {
  static constexpr void choose(plan_options& o) { o.profile = profile_of<Table>; }
  template <class Model, int MicroBatchSize>
  static constexpr bool suits() {
    return detail::require_profile<Table, Model, MicroBatchSize>();
  }
};
/// The cut pays for what crosses it, over the device's link.
struct with_transfers {
  static constexpr void choose(plan_options& o) { o.cost_transfers = true; }
};
/// No stage takes more: the cut obeys it, and recompute as needed makes room for it. `memory_limit<16_GiB>`.
template <std::int64_t Bytes>
struct memory_limit {
  static_assert(Bytes >= 1, "gpipe: a memory limit leaves at least one byte");
  static constexpr void choose(plan_options& o) { o.memory_limit = Bytes; }
};
/// A cut of your own: the first slot of every stage but the first. It says how many stages there are, too.
template <int... First>
struct cut_at {
  static constexpr int places = sizeof...(First);
  static constexpr int between[sizeof...(First) + 1] = {First...};
  static constexpr void choose(plan_options& o) { o.stages = places + 1; }
};

namespace broken {

template <class Option, bool Holds>
struct option_of_a_plan {
  static_assert(Holds, "gpipe: a plan's options are stages<S>, micro_batches<M>, micro_batch_size<B>, "
                       "in<precision>, recompute<mode>, schedule<type>, chunks<V>, workers<W>, replicas<R>, "
                       "optimizer<type>, coalesce<G>, on_device<device>, on_devices<devices...>, profiled<table>, "
                       "with_transfers, memory_limit<bytes> and cut_at<slots...>");
};

}  // namespace broken

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

template <class... Options>
constexpr plan_options chosen() {
  plan_options options;
  // How many stages a cut has is a default: `stages` overrides it, wherever it stands, and the two are compared later.
  ((is_cut<Options> ? choose<Options>(options) : void()), ...);
  ((is_cut<Options> ? void() : choose<Options>(options)), ...);
  static_cast<void>(sizeof...(Options));
  return options;
}

template <class Option, class Model, int MicroBatchSize>
constexpr bool suits() {
  if constexpr (requires { Option::template suits<Model, MicroBatchSize>(); })
    return Option::template suits<Model, MicroBatchSize>();
  else
    return true;
}

// The schedule as an object of its own type, and the user's own cut; of several the last, as with all options.
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
    else if constexpr (!scheduler<Schedule>) return fill_drain{};  // that has its error above
    else if constexpr (std::is_same_v<Schedule, interleaved>) return Schedule{o.chunks};
    else return Schedule{};
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

/// The chosen schedule as an object, folded if workers were named.
template <class... Options>
constexpr auto schedule_in(const plan_options& o) {
  const auto whole = chosen_types<Options...>::schedule(o);
  if constexpr ((is_fold<Options> || ...)) return folded{whole, o.workers};
  else return whole;
}

}  // namespace detail

}  // namespace gpipe
