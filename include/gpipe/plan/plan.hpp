#pragma once

#include <cstdint>
#include <limits>
#include <utility>

#include <gpipe/core/included.hpp>
#include <gpipe/core/zeroed_array.hpp>
#include <gpipe/model/in_bf16.hpp>
#include <gpipe/plan/constant_plan.hpp>
#include <gpipe/plan/cut/choose_cut.hpp>
#include <gpipe/plan/cut/step_time.hpp>
#include <gpipe/plan/cut/step_time_bound.hpp>
#include <gpipe/plan/memory/compile_time.hpp>
#include <gpipe/plan/memory/derive_requirements.hpp>
#include <gpipe/plan/memory/memory_kind.hpp>
#include <gpipe/plan/memory/requirements.hpp>
#include <gpipe/plan/options/plan_options.hpp>
#include <gpipe/plan/options/promises.hpp>
#include <gpipe/plan/options/static_options.hpp>
#include <gpipe/plan/plan_steps.hpp>
#include <gpipe/plan/program/promises.hpp>
#include <gpipe/plan/recompute/decide_stages.hpp>
#include <gpipe/plan/schedule/any_schedule.hpp>
#include <gpipe/plan/stages/cut.hpp>
#include <gpipe/plan/stages/stage_view.hpp>
#include <gpipe/plan/step_plan.hpp>
#include <gpipe/plan/timetable/timetable.hpp>

namespace gpipe {

namespace detail {

/// The maximum of layers x stages for which a compile error names the smallest memory limit.
inline constexpr int max_limit_search = 64;

template <int Count>
struct cut_array {
  int first[static_cast<std::size_t>(Count) + 1]{};
  bool fits = true;
};
template <int Count>
struct stage_array {
  plan_options options;  ///< with the number of micro-batches whose gradients are computed together
  stage_plan plans[static_cast<std::size_t>(Count)]{};
};

/// The stages of a plan as types. Only <gpipe/stages.hpp> completes it.
template <class Plan>
struct stage_tuple;

/// The options with the warm-up that `choose_warmup` finds.
template <class Model, class... Options>
constexpr plan_options resolved() {
  constexpr plan_options given = chosen<Options...>();
  plan_options o = given;
  if constexpr (given.stages >= 1 && given.stages <= layers_of<Model>)
    if (simulates_warmup(given)) {
      using cut = typename chosen_types<Options...>::custom_cut;
      require_in_reach(o.stages, o.micro_batches, max_simulated);
      const network& net = network_of<typename model_in<Model, given.precision>::type>;
      if constexpr (cut::count > 0) {
        const zeroed_array<int> first(o.stages);
        take_cut(cut::between, cut::count, net.layer_count, o.stages, first.data());
        o.warmup = choose_warmup(net, o, first.data());
      } else {
        o.warmup = choose_warmup(net, o);
      }
    }
  return o;
}

}  // namespace detail

/// A plan of a model, made and checked at compile time: the best cut into stages, the memory of every stage, and a
/// schedule whose table is proven right. Times are in picoseconds.
///
///     using plan = gpipe::plan<net, stages<4>, micro_batches<16>, micro_batch_size<8>>;
template <class Model, class... Options>
class plan {
  using types = detail::chosen_types<Options...>;
  using as = decltype(detail::planned_model<Model>());

 public:
  static constexpr plan_options options = detail::resolved<typename as::type, Options...>();
  using model = typename detail::model_in<Model, options.precision>::type;  ///< in its precision
  static constexpr int S = options.stages, M = options.micro_batches, B = options.micro_batch_size;
  static constexpr int L = layers_of<typename as::type>;
  static constexpr auto schedule = detail::schedule_in<Options...>(options);

 private:
  using planned = typename detail::model_in<typename as::type, options.precision>::type;
  static_assert(sizeof(broken::a_layer_for_each_stage < S, L, as::mistaken || S < 1 || S <= L >) > 0);
  static constexpr bool counts_samples =  // what is out of range has its error above
                                          // assumes: int positions
      B <= (std::numeric_limits<int>::max)() / (M >= 1 ? M : 1) / (options.replicas >= 1 ? options.replicas : 1);
  static_assert(sizeof(broken::micro_batches_hold_samples<M, B, counts_samples>) > 0);
  static_assert(sizeof(broken::every_stage_has_a_device<S, options.device_count,
                                                        (options.device_count == 0 || options.device_count == S)>) > 0);
  static constexpr int max_workers = S >= 1 && M >= 1 ? options.max_workers() : 0;  // 0: the error is below
  static_assert(sizeof(broken::workers_have_work < options.workers, max_workers,
                       max_workers == 0 || options.workers <= max_workers >) > 0);
  static_assert(sizeof(broken::gradients_grouped_by_fill_drain < options.group_gradients,
                       options.group_gradients <= 1 || options.schedule == schedule_kind::fill_drain >) > 0);
  static_assert(sizeof(broken::gradients_grouped_without_recompute < options.group_gradients,
                       options.group_gradients <= 1 || options.keeps_all() >) > 0);
  static_assert(sizeof(broken::recompute_of_layers_alone < options.recompute,
                       options.recompute_layers.empty() || options.recompute == recompute_mode::never ||
                           options.recompute == recompute_mode::as_needed >) > 0);
  static_assert(
      sizeof(broken::packed_weights_of_one_kind<options.share_packed_weights, options.keep_packed_weights,
                                                !(options.share_packed_weights && options.keep_packed_weights)>) > 0);
  static constexpr int recompute_lists = detail::recompute_lists<Options...>;
  static_assert(sizeof(broken::recompute_layers_of_one_list<recompute_lists, recompute_lists <= 1>) > 0);
  static constexpr int valid_stages = S >= 1 && S <= L ? S : 1, valid_micro_batches = M >= 1 ? M : 1;
  static constexpr bool options_suit = (detail::suits<Options, planned, B>() && ...);  // else the error is theirs
  static constexpr plan_options valid_options = [] {
    plan_options o = options;
    o.stages = valid_stages;
    o.micro_batches = valid_micro_batches;
    if (!options_suit) o.profile = {}, o.recompute_layers = {};
    if (o.device_count != o.stages) o.devices = nullptr, o.device_count = 0;
    if (o.group_gradients > 1 && !o.may_group_gradients()) o.group_gradients = 1;  // the error is above
    return o;
  }();

  template <class Use>
  static constexpr auto with_costs(Use&& use) {
    const detail::zeroed_array<layer_cost> costs(detail::cost_count(network_of<planned>, valid_options));
    return use(detail::fill_costs(network_of<planned>, valid_options, costs.data()));
  }

  static constexpr auto cut_ = [] {
    detail::cut_array<valid_stages> found;
    if constexpr (detail::takes_custom_cut<types, S, L>())
      detail::take_cut(types::custom_cut::between, types::custom_cut::count, L, valid_stages, found.first);
    else if (!schedule.admits(valid_stages, valid_micro_batches))  // the error is below
      for (int s = 0; s <= valid_stages; ++s) found.first[s] = s < valid_stages ? s : L;
    else
      with_costs([&](const stage_costs& costs) {
        // change: the cut search; its call in the compiler
        found.fits = choose_cut(network_of<planned>, valid_options, schedule, costs, found.first);
      });
    return found;
  }();
  // The search repeats the cut's, so a large model would exceed the compilers' limits of constant evaluation.
  static constexpr memory_shortage shortage_ = [] {
    if constexpr (!cut_.fits && L * valid_stages <= detail::max_limit_search)
      return with_costs(
          [](const stage_costs& costs) { return find_shortage(network_of<planned>, valid_options, schedule, costs); });
    else return memory_shortage{};
  }();
  static constexpr std::int64_t short_limit_ = cut_.fits ? 0 : valid_options.limit_of(shortage_.stage);
  static constexpr std::int64_t smallest_limit_ = shortage_.bytes == 0 ? 0 : short_limit_ + shortage_.bytes;
  static_assert(sizeof(broken::some_cut_fits_memory<S, shortage_.stage, short_limit_, smallest_limit_, cut_.fits>) > 0);

  static constexpr auto grouped_ = [] {
    detail::stage_array<valid_stages> found{valid_options};
    found.options.group_gradients = choose_gradient_group(network_of<planned>, valid_options, schedule,
                                                          gpipe::cut{cut_.first, valid_stages}, found.plans);
    return found;
  }();

  static constexpr int link_count_ =
      detail::link_list(network_of<planned>, gpipe::cut{cut_.first, valid_stages}).count();
  static constexpr auto links_ = [] {
    detail::constant_list<stage_link, link_count_> found;
    detail::find_links(network_of<planned>, gpipe::cut{cut_.first, valid_stages},
                       [&, count = 0](const stage_link& link) mutable { found.elements[count++] = link; });
    return found;
  }();
  struct table {
    static constexpr const auto& schedule = plan::schedule;
    static constexpr int stages = valid_stages, micro_batches = valid_micro_batches;
    static constexpr const stage_link* links = links_.elements;
    static constexpr int link_count = link_count_;
  };
  static_assert(require_runnable<table>());

  static constexpr auto stages_ = [] {
    struct {
      stage_plan plans[static_cast<std::size_t>(valid_stages)]{};
      int before[static_cast<std::size_t>(L)]{};  // of each layer: see `cut`
      bool by_layer[static_cast<std::size_t>(valid_stages)]{}, any_by_layer = false;
    } found;
    for (int s = 0; s < valid_stages; ++s) found.plans[s] = grouped_.plans[s];
    with_costs([&](const stage_costs& costs) {
      detail::decide_stages(network_of<planned>, grouped_.options, schedule, costs, cut_.first, found.plans,
                            found.before);
    });
    found.any_by_layer =
        detail::mark_by_layer(network_of<planned>, gpipe::cut{cut_.first, valid_stages, found.before}, found.by_layer);
    return found;
  }();

 public:
  static constexpr gpipe::cut cut() {
    return {cut_.first, valid_stages, stages_.any_by_layer ? stages_.before : nullptr};
  }

 private:
  struct programs : table {
    static constexpr int group_gradients = grouped_.options.group_gradients,
                         late = detail::on_the_way(options.cost_transfers);
    static constexpr schedule_choice forwards = valid_options.chosen_schedule().forwards();
    static constexpr bool ties = [] {
      for (int l = 0; l < L; ++l)
        if (!network_of<planned>.owns(l)) return true;
      return false;
    }();
    static constexpr auto working_sets = [] {
      detail::constant_list<int, valid_stages> sets;
      for (int s = 0; s < valid_stages; ++s) sets.elements[s] = stages_.plans[s].requirements.kept_copies;
      return sets;
    }();
    static constexpr detail::recompute_choice recompute() {
      return detail::recompute_in(options, working_sets.elements, stages_.by_layer);
    }
    static constexpr void set_copies(const stage_link& link, int* copies) {
      detail::set_copies(stages_.plans, link, copies);
    }
  };
  static_assert(detail::require_programs<programs>());
  struct constants : programs {
    static constexpr int S = valid_stages, M = valid_micro_batches;
    static constexpr auto workers_of_stages = [] {
      detail::constant_list<int, S> workers;
      for (int s = 0; s < S; ++s) workers.elements[s] = schedule.worker_of(S, s);
      return workers;
    }();
    static constexpr auto slots_of_stages = [] {
      detail::constant_list<int, 4 * S * M> slot_numbers;
      detail::tick_index index(schedule, S, M, programs::group_gradients);
      for (int s = 0; s < S; ++s) {
        int* const stage = slot_numbers.elements + 4 * s * M;
        detail::assign_stage_slots(index, programs::recompute(), s, stages_.plans[s].requirements.split, stage,
                                   stage + M, stage + 2 * M, stage + 3 * M);
      }
      return slot_numbers;
    }();
    static constexpr int cost_count = detail::cost_count(network_of<planned>, valid_options);
    static constexpr auto costs = [] {
      detail::constant_list<layer_cost, cost_count> list;
      detail::fill_costs(network_of<planned>, valid_options, list.elements);
      return list;
    }();
    static constexpr auto shares = [] {
      detail::constant_list<double, S> list;
      with_costs([&list](const stage_costs& layer_times) {
        detail::set_shares(schedule, valid_options, layer_times, gpipe::cut{cut_.first, S}, list.elements);
      });
      return list;
    }();
    static constexpr detail::plan_constants arrays{schedule.name(),
                                                   schedule.trains,
                                                   schedule.workers(S),
                                                   programs::group_gradients,
                                                   cut(),
                                                   workers_of_stages.elements,
                                                   links_.elements,
                                                   link_count_,
                                                   detail::link_slots_of<programs>.elements,
                                                   slots_of_stages.elements,
                                                   stages_.plans,
                                                   detail::program_views_of<programs, true>.elements,
                                                   detail::program_views_of<programs, false>.elements,
                                                   costs.elements,
                                                   cost_count,
                                                   shares.elements};
  };
  struct laid_out {
    static constexpr int stages = valid_stages;
    static constexpr stage_view view(int s) { return {network_of<planned>, cut(), s}; }
    static constexpr const memory_requirements& requirements(int s) { return stages_.plans[s].requirements; }
    static constexpr std::int64_t limit(int s) { return valid_options.limit_of(s); }
  };
  // The best cut obeys the limit; a custom cut must.
  static constexpr bool custom_cut_fits_ = [] {
    if constexpr (types::has_cut && options.limits_memory())
      return detail::each_stage_fits<laid_out, laid_out::limit>(std::make_integer_sequence<int, valid_stages>{});
    return true;
  }();
  static_assert(custom_cut_fits_);

 public:
  /// The stage of a layer.
  static constexpr int stage_of(int layer) { return cut().stage_of(layer); }
  /// Whether a training uses the plan unchanged: the compiler has run its programs, and the training's optimizer
  /// determines only the sizes of arenas.
  static constexpr bool is_constant =
      detail::runs_early<programs>() &&
      (!options.limits_memory() || (options.recompute_whole() != recompute_mode::as_needed &&
                                    !(options.group_gradients == 0 && options.may_group_gradients())));
  /// The plan of a training with these options, if it is constant.
  static step_plan made_for(const network& net, const plan_options& with) {
    return detail::plan_from(constants::arrays, net, with);
  }
  /// Bytes of a stage, by kind.
  static constexpr const stage_memory& memory(int s) { return detail::memory_table<laid_out>.elements[s]; }
  /// True; an error if a stage needs more bytes. See `require_fits`.
  template <std::int64_t Bytes>
  static constexpr bool fits() {
    return detail::each_stage_fits<laid_out, detail::equal_limit<Bytes>>(
        std::make_integer_sequence<int, valid_stages>{});
  }
  /// The numbers on which the memory of a stage depends, besides its layers.
  static constexpr const memory_requirements& requirements(int s) { return stages_.plans[s].requirements; }
  /// The number of the model's parameters.
  static constexpr std::size_t parameters() { return network_of<planned>.parameters(); }
  /// Micro-batches whose parameter gradients a stage computes together; 1: each by itself.
  static constexpr int group_gradients = grouped_.options.group_gradients;
  /// The schedule's idle share, with stages of equal cost and backward twice forward: (S - 1) / (M + S - 1).
  static constexpr double bubble() { return timetable(schedule, S, M).bubble(); }
  /// The length of a step with the costs of the stages, by simulation. At compile time S x M is at most 1024 on clang++
  /// and 2048 on other compilers.
  static constexpr std::int64_t makespan() {
    detail::require_in_reach(valid_stages, valid_micro_batches, detail::max_simulated);
    return with_costs([](const stage_costs& costs) {
      return detail::makespan_of(network_of<planned>, valid_options, schedule, costs, cut(), links_.elements,
                                 link_count_, [](int s) { return laid_out::requirements(s).kept_copies; });
    });
  }
  /// No step of this schedule is shorter, for any cut. At compile time S x M is at most 2048 on clang++ and 8192 on
  /// other compilers.
  static constexpr std::int64_t lower_bound() {
    detail::require_in_reach(valid_stages, valid_micro_batches, detail::max_bounded);
    return with_costs([](const stage_costs& costs) {
      return detail::lower_bound_of(network_of<planned>, valid_options, schedule, costs);
    });
  }
  /// The objective of the partition, of this cut and of the best one.
  static constexpr detail::distance from_optimum() {
    return with_costs([](const stage_costs& costs) {
      return detail::distance_of(network_of<planned>, valid_options, schedule, costs, cut_.first);
    });
  }
  /// The stages as types: a Hana tuple of `stage`. A stage that runs forward again is in `recomputed`, with the numbers
  /// of its recomputed layers, or, if whole micro-batches run again, without a list. Include <gpipe/stages.hpp>, which
  /// has Hana's algorithms, to call it.
  template <class Self = plan>
  static constexpr auto stages() {
    static_assert(detail::included<detail::stage_tuple<Self>>,
                  "gpipe: the stages of a plan as types are another header's: #include <gpipe/stages.hpp>");
    if constexpr (detail::included<detail::stage_tuple<Self>>) return detail::stage_tuple<Self>::make();
  }
};

/// `static_assert(require_fits<plan, 8_GiB>())`: a stage that needs more does not compile, and the error names the
/// stage and its bytes.
template <class Plan, std::int64_t Bytes>
constexpr bool require_fits() {
  return Plan::template fits<Bytes>();
}

}  // namespace gpipe
