#pragma once

#include <gpipe/core/units.hpp>
#include <gpipe/model/model.hpp>
#include <gpipe/plan/check.hpp>
#include <gpipe/plan/cost.hpp>
#include <gpipe/plan/links.hpp>
#include <gpipe/plan/memory.hpp>
#include <gpipe/plan/options.hpp>
#include <gpipe/plan/program.hpp>
#include <gpipe/plan/stage.hpp>
#include <gpipe/plan/timetable.hpp>

namespace gpipe {

// Options of a plan, in any order.
template <int S>
struct stages {
  static constexpr void choose(plan_options& o) { o.stages = S; }
};
template <int M>
struct micro_batches {
  static constexpr void choose(plan_options& o) { o.micro_batches = M; }
};
template <int B>
struct micro_batch_size {
  static constexpr void choose(plan_options& o) { o.micro_batch_size = B; }
};
template <recompute_mode Mode>
struct recompute {
  static constexpr void choose(plan_options& o) { o.recompute = Mode; }
};
template <class Optimizer>
struct optimizer {
  static constexpr void choose(plan_options& o) { o.moments = Optimizer::moments; }
};

namespace broken {

template <class Option, bool Holds>
struct option_of_a_plan {
  static_assert(Holds, "gpipe: a plan's options are stages<S>, micro_batches<M>, micro_batch_size<B>, recompute<mode> "
                       "and optimizer<type>");
};
template <int Stages, int Layers, bool Holds>
struct stages_at_most_layers {
  static_assert(Holds, "gpipe: a plan needs at least one stage, and no more stages than the model has layers");
};
template <int MicroBatches, int MicroBatchSize, bool Holds>
struct micro_batches_hold_samples {
  static_assert(Holds, "gpipe: a plan needs at least one micro-batch of at least one sample");
};
template <int Stage, std::int64_t BytesNeeded, std::int64_t BytesAllowed, bool Holds>
struct stage_fits_memory {
  static_assert(Holds, "gpipe: a stage needs more memory than it is allowed (Stage, BytesNeeded, BytesAllowed)");
};
template <int Worker, int Position, fault What, bool Holds>
struct schedule_is_sound {
  static_assert(Holds, "gpipe: the schedule's programs are wrong (Worker, Position in its program, What)");
};

}  // namespace broken

namespace detail {

template <class Option>
constexpr void choose(plan_options& options) {
  if constexpr (requires { Option::choose(options); }) Option::choose(options);
  else static_cast<void>(asserted<broken::option_of_a_plan<Option, false>>{});
}

template <class Model, class... Options>
constexpr plan_options chosen() {
  plan_options options;
  (choose<Options>(options), ...);
  static_cast<void>(sizeof...(Options));
  return options;
}

template <int Count>
struct cut_array {
  int first[static_cast<std::size_t>(Count) + 1]{};
};

}  // namespace detail

/// A plan of a model, made and proven while it compiles: the best cut into stages, what every stage holds, its memory,
/// and a schedule whose programs are checked.
///
///     using plan = gpipe::plan<net, stages<4>, micro_batches<16>, micro_batch_size<8>>;
template <class Model, class... Options>
class plan {
 public:
  using model = Model;
  static constexpr plan_options options = detail::chosen<Model, Options...>();
  static constexpr int S = options.stages, M = options.micro_batches, B = options.micro_batch_size;
  static constexpr int L = slots_of<Model>;

 private:
  static_assert(sizeof(broken::stages_at_most_layers<S, L, (S >= 1 && S <= L)>) > 0);
  static_assert(sizeof(broken::micro_batches_hold_samples<M, B, (M >= 1 && B >= 1)>) > 0);
  static constexpr int sane_stages = S >= 1 && S <= L ? S : 1, sane_batches = M >= 1 ? M : 1;

  static constexpr auto cut_ = [] {
    detail::cut_array<sane_stages> found;
    const detail::scratch<slot_cost> costs(L);
    for (int l = 0; l < L; ++l)
      costs[l] = cost_of(network_of<Model>.row_of(l), B, options.recompute != recompute_mode::never);
    partition(costs.data(), L, sane_stages, sane_batches, found.first);
    return found;
  }();

  static constexpr memory_terms terms(int s) {
    return with_schedule(options.schedule, [s](auto schedule) {
      const int in_flight = decltype(schedule)::in_flight(S, M, s);
      return memory_terms{M, B, in_flight, options.recompute == recompute_mode::never ? in_flight : 1, options.moments};
    });
  }

  static constexpr verdict checked = [] {
    const detail::scratch<link> links(sane_stages * sane_stages);
    int count = 0;
    find_links(network_of<Model>, gpipe::cut{cut_.first, sane_stages}, [&](const link& l) { links[count++] = l; });
    return with_schedule(options.schedule, [&](auto schedule) {
      return check_schedule(schedule, sane_stages, sane_batches, options.recompute, links.data(), count, rendezvous);
    });
  }();
  static_assert(sizeof(broken::schedule_is_sound<checked.worker, checked.position, checked.what, checked.ok()>) > 0);

  template <int... I>
  static constexpr auto make_stages(std::integer_sequence<int, I...>) {
    return detail::hana_tuple<decltype(detail::wrapped_stage<Model, options.recompute, I, cut_.first[I],
                                                             cut_.first[I + 1]>())...>{};
  }

 public:
  static constexpr gpipe::cut cut() { return {cut_.first, sane_stages}; }
  /// The stage of a slot.
  static constexpr int stage_of(int slot) { return cut().stage_of(slot); }
  /// Bytes of a stage, by kind.
  static constexpr stage_memory memory(int s) { return memory_of(stage_view(network_of<Model>, cut(), s), terms(s)); }
  /// The number of the model's parameters.
  static constexpr std::size_t parameters() { return network_of<Model>.parameters(); }
  /// The schedule's idle share, with stages of equal cost and backward twice forward: (S - 1) / (M + S - 1).
  static constexpr double bubble() {
    return with_schedule(options.schedule, [](auto schedule) { return timetable(schedule, S, M).bubble(); });
  }
  /// The stages as types: a Hana tuple of `stage`, each in `recomputed` unless nothing is.
  static constexpr auto stages() { return make_stages(std::make_integer_sequence<int, sane_stages>{}); }
};

namespace detail {

template <class Plan, std::int64_t Allowed, int... I>
constexpr bool each_stage_fits(std::integer_sequence<int, I...>) {
  // True even so: the mistake has had its error.
  return (asserted<broken::stage_fits_memory<I, Plan::memory(I).total(), Allowed,
                                             (Plan::memory(I).total() <= Allowed)>>::value && ...);
}

}  // namespace detail

/// `static_assert(require_fits<plan, 8_GiB>())`: a stage that needs more does not compile, and the error tells which,
/// and how many bytes.
template <class Plan, std::int64_t Bytes>
constexpr bool require_fits() {
  return detail::each_stage_fits<Plan, Bytes>(std::make_integer_sequence<int, Plan::S>{});
}

}  // namespace gpipe
