#pragma once

#include <cstdint>
#include <type_traits>
#include <utility>

#include <gpipe/core/config.hpp>
#include <gpipe/model/in_bf16.hpp>
#include <gpipe/model/network.hpp>
#include <gpipe/model/promises.hpp>
#include <gpipe/plan/options/options.hpp>
#include <gpipe/plan/options/plan_options.hpp>
#include <gpipe/plan/options/promises.hpp>
#include <gpipe/plan/options/static_options.hpp>
#include <gpipe/plan/plan.hpp>
#include <gpipe/plan/schedule/any_schedule.hpp>
#include <gpipe/tools/best/choose_best.hpp>
#include <gpipe/tools/best/plan_space.hpp>

namespace gpipe {

namespace broken {

template <int Devices, int MiniBatch, int MaxDevices, int MaxMiniBatch, bool Holds>
struct best_has_devices_and_a_batch {
  static_assert(Holds,
                "gpipe: best<...> needs the number of devices and the samples of a mini-batch, as in "
                "best<devices<8>, mini_batch<512>> (Devices, MiniBatch, MaxDevices, MaxMiniBatch)");
};
template <class Option, bool Holds>
struct option_beside_best {
  static_assert(Holds,
                "gpipe: best<...> chooses stages, chunks and cut itself, for equal devices and a built-in schedule: "
                "leave this option out. replicas<R>, workers<K>, micro_batches<M>, micro_batch_size<B> and "
                "schedule<type> may be fixed");
};
template <int ProfileMicroBatchSize, int MicroBatchSize, bool Holds>
struct best_of_a_profile_has_its_size {
  static_assert(Holds,
                "gpipe: a profile is of one size of micro-batches: fix it in best<..., micro_batch_size<B>> "
                "(ProfileMicroBatchSize, MicroBatchSize)");
};
template <int Devices, int MiniBatch, int Replicas, int Workers, int MicroBatches, int MicroBatchSize, bool Holds>
struct best_has_a_plan {
  static_assert(Holds,
                "gpipe: no plan has these fixed choices, of which 0 is free: replicas x workers are at most Devices, "
                "replicas x micro-batches x their size hold a mini-batch, and at compile time a plan has at most 256 "
                "stages x micro-batches (Devices, MiniBatch, Replicas, Workers, MicroBatches, MicroBatchSize)");
};
template <int Devices, std::int64_t BytesAllowed, std::int64_t SufficientBytes, bool Holds>
struct some_plan_fits_its_devices {
  static_assert(Holds,
                "gpipe: best<...> finds no plan that fits the memory of a device (Devices, BytesAllowed, "
                "SufficientBytes): SufficientBytes are enough for a plan with the most workers; or give it more "
                "devices");
};

}  // namespace broken

// Compile-time options of a search.

template <int D>
struct devices {
  static constexpr void choose(plan_space& space) { space.devices = D; }
};
/// The samples of a step, over all replicas.
template <int Samples>
struct mini_batch {
  static constexpr void choose(plan_space& space) { space.batch = Samples; }
};

/// An option of a compile-time plan: the compiler chooses stages, micro-batches, their size, replicas, schedule, cut
/// and recompute by `choose_best`. Further choices fix numbers. Other options of the plan, such as `memory_limit`,
/// which is per device, may be among them or next to `best`.
///
///     using plan = gpipe::plan<net, best<devices<4>, mini_batch<64>, memory_limit<16_GiB>>>;
template <class... Choices>
struct best {};

namespace detail {

inline constexpr int max_best_devices = 64, max_best_batch = 1 << 16;

template <class Option>
inline constexpr bool is_best = false;
template <class... Choices>
inline constexpr bool is_best<best<Choices...>> = true;

/// All options in one list, including the choices of `best`.
template <class... Options>
struct option_list {
  template <template <class...> class Of, class First>
  using apply = Of<First, Options...>;
  template <class... Others>
  static option_list<Options..., Others...> with(option_list<Others...>);
};
template <class Option>
struct listed {
  using type = option_list<Option>;
};
template <class... Choices>
struct listed<best<Choices...>> {
  using type = option_list<Choices...>;
};
template <class... Options>
constexpr auto flatten() {
  if constexpr (sizeof...(Options) == 0) return option_list<>{};
  else
    return []<class First, class... Rest>(std::type_identity<First>, std::type_identity<Rest>...) {
      return decltype(listed<First>::type::with(flatten<Rest...>())){};
    }(std::type_identity<Options>{}...);
}

template <class Option>
concept space_option = requires(plan_space& space) {
  Option::choose(space);
};

/// Whether `best` accepts an option.
template <class Option>
inline constexpr bool suits_best = true;
template <int S>
inline constexpr bool suits_best<stages<S>> = false;
template <int V>
inline constexpr bool suits_best<chunks<V>> = false;
template <warmup_kind Kind>
inline constexpr bool suits_best<warmup<Kind>> = false;
template <int G>
inline constexpr bool suits_best<group_gradients<G>> = false;
template <int... First>
inline constexpr bool suits_best<cut_at<First...>> = false;
template <const device_spec&... Devices>
inline constexpr bool suits_best<on_devices<Devices...>> = false;
template <class Schedule>
inline constexpr bool suits_best<schedule<Schedule>> = [] {
  plan_options o;
  schedule<Schedule>::choose(o);
  return find_searched(o.schedule) != nullptr;
}();

template <class Option>
constexpr bool require_beside_best() {
  static_cast<void>(asserted<broken::option_beside_best<Option, suits_best<Option>>>{});
  return suits_best<Option>;
}

/// All options of a plan at once.
template <class Search>
struct chosen_by {
  static constexpr void choose(plan_options& o) { o = Search::options; }
};

/// `choose_best` in steps, each a constant evaluation.
template <class Model, class... Choices>
struct compiled_best {
  using as = decltype(planned_model<Model>());
  static constexpr plan_options given = [] {
    plan_options o;
    o.replicas = o.micro_batches = o.micro_batch_size = 0;
    const auto take = [&o]<class Option>(std::type_identity<Option>) {
      if constexpr (!space_option<Option>) detail::choose<Option>(o);
    };
    (take(std::type_identity<Choices>{}), ...);
    return o;
  }();
  static constexpr plan_space space = [] {
    plan_space chosen{.devices = 0, .batch = 0};
    const auto take = [&chosen]<class Option>(std::type_identity<Option>) {
      if constexpr (space_option<Option>) Option::choose(chosen);
    };
    (take(std::type_identity<Choices>{}), ...);
    chosen.replicas = given.replicas;
    chosen.workers = given.workers;
    chosen.micro_batches = given.micro_batches;
    chosen.micro_batch_size = given.micro_batch_size;
    if (chosen_types<Choices...>::has_schedule) chosen.schedule = given.schedule;
    return chosen;
  }();
  using planned = typename model_in<typename as::type, given.precision>::type;

  static constexpr bool is_space =
      space.devices >= 1 && space.devices <= max_best_devices && space.batch >= 1 && space.batch <= max_best_batch;
  static_assert(sizeof(broken::best_has_devices_and_a_batch<space.devices, space.batch, max_best_devices,
                                                            max_best_batch, is_space>) > 0);
  static constexpr bool has_size = given.profile.count == 0 || given.profile.micro_batch_size == given.micro_batch_size;
  static_assert(
      sizeof(broken::best_of_a_profile_has_its_size<given.profile.micro_batch_size, given.micro_batch_size, has_size>) >
      0);
  static constexpr bool searches = (int{require_beside_best<Choices>()} + ... + 0) == sizeof...(Choices) && is_space &&
                                   has_size && !as::mistaken &&
                                   (suits<Choices, planned, given.micro_batch_size>() && ...);

  static constexpr plan_options search_options = options_of_search(given);
  static constexpr stage_shares shares = [] {
    if constexpr (searches) return measure_stages(network_of<planned>, space, search_options);
    else return stage_shares{};
  }();
  template <int R>
  static constexpr ranked_plans ranked_with = rank_plans(network_of<planned>, space, search_options, shares, R);
  static constexpr ranked_plans ranked = [] {
    ranked_plans found{};
    if constexpr (searches) {
      const auto add = [&found]<int R>(std::integral_constant<int, R>) {
        if constexpr ((space.replicas == 0 || space.replicas == R) && R <= space.batch) found.add(ranked_with<R>);
      };
      [&]<int... R>(std::integer_sequence<int, R...>) { (add(std::integral_constant<int, R + 1>{}), ...); }
      (std::make_integer_sequence<int, space.devices>{});
    }
    found.shorten(ranked_plans::most, ranked_plans{});
    return found;
  }();
  static constexpr bool has_plan = ranked.plans > 0;
  static_assert(sizeof(broken::best_has_a_plan < space.devices, space.batch, space.replicas, space.workers,
                       space.micro_batches, space.micro_batch_size, has_plan || !searches >) > 0);

  static constexpr int tries = search_options.limits_memory() ? 2 : 1;  // per plan
  /// The best of the first `Count` tries.
  template <bool Nearby, int Count>
  static constexpr best_choice best_of() {
    if constexpr (Count == 0 && Nearby) return first;
    else if constexpr (Count == 0) return best_choice{};
    else {
      constexpr best_choice previous = best_of<Nearby, Count - 1>();
      constexpr plan_candidate candidate = [] {
        if constexpr (Nearby) return nearby.entries[(Count - 1) / tries].candidate;
        else return ranked.entries[(Count - 1) / tries].candidate;
      }();
      constexpr tried_cut tried =
          cut_to_try(network_of<planned>, candidate, search_options, previous, (Count - 1) % tries == 1);
      return simulate_plan(network_of<planned>, candidate, search_options, previous, tried);
    }
  }
  static constexpr best_choice best_ranked = best_of<false, ranked.count * tries>();
  static constexpr best_choice first = [] {
    best_choice found = best_ranked;
    if constexpr (has_plan && !best_ranked.fits())
      found = simulate_plan(network_of<planned>, ranked.smallest, search_options, found,
                            cut_to_try(network_of<planned>, ranked.smallest, search_options, found, true));
    found.min = ranked.min;
    return found;
  }();
  static constexpr std::int64_t sufficient = [] {
    if constexpr (has_plan && !first.fits())
      return sufficient_bytes(network_of<planned>, ranked.smallest, search_options);
    else return std::int64_t{0};
  }();
  static_assert(sizeof(broken::some_plan_fits_its_devices < space.devices, search_options.device.memory_limit,
                       sufficient, first.fits() || !has_plan >) > 0);

  static constexpr ranked_plans nearby = [] {
    if constexpr (first.fits()) return rank_near(network_of<planned>, space, search_options, shares, first, ranked);
    else return ranked_plans{};
  }();
  template <int Rounds>
  static constexpr cut_moves moved() {
    if constexpr (Rounds == 0) return cut_moves{best_of<true, nearby.count * tries>()};
    else {
      constexpr cut_moves previous = moved<Rounds - 1>();
      return previous.further(network_of<planned>, search_options);
    }
  }
  static constexpr best_choice choice = [] {
    if constexpr (first.fits()) return moved<rounds_of_moves>().best;
    else return best_choice{};  // its error is above
  }();
  static constexpr plan_options options = choice.fits() ? choice.winner.in(search_options) : plan_options{};

  /// An option that a plan checks with the model; any other option has no effect here.
  template <class Option>
  struct checked {
    static constexpr void choose(plan_options&) {}
  };
  template <class Option>
  requires(searches&& requires { Option::template suits<planned, 1>(); }) struct checked<Option> : Option {
  };

  template <int... S>
  static auto plan_with(std::integer_sequence<int, S...>)
      -> plan<Model, chosen_by<compiled_best>, schedule<schedule_of_kind<options.schedule>>,
              cut_at<choice.first[index(S + 1)]...>, checked<Choices>...>;
  using type = decltype(plan_with(std::make_integer_sequence<int, options.stages - 1>{}));
};

}  // namespace detail

/// A plan whose options the compiler chose. It is used as any other plan.
template <class Model, class... Options>
requires(detail::is_best<Options> || ...) class plan<Model, Options...>
    : public decltype(detail::flatten<Options...>())::template apply<detail::compiled_best, Model>::type {
  using search = typename decltype(detail::flatten<Options...>())::template apply<detail::compiled_best, Model>;

 public:
  /// Replicas, workers and the predicted step with the update, and a bound: no plan of the space has a shorter step.
  static constexpr best_choice choice = search::choice;
};

}  // namespace gpipe
