#pragma once

#include <limits>

#include <gpipe/core/descriptions/optimizer.hpp>
#include <gpipe/core/descriptions/precision.hpp>
#include <gpipe/core/descriptions/recompute.hpp>
#include <gpipe/core/descriptions/tensor_rule.hpp>
#include <gpipe/core/error.hpp>
#include <gpipe/layer/contract/row_parts.hpp>
#include <gpipe/model/promises.hpp>
#include <gpipe/plan/cost/profile.hpp>
#include <gpipe/plan/options/option.hpp>
#include <gpipe/plan/timetable/recompute.hpp>

namespace gpipe {

/// Any number of bytes is allowed.
inline constexpr std::int64_t no_memory_limit = (std::numeric_limits<std::int64_t>::max)();

/// The choices that make a plan of a network, at compile time or at run time. A new option is a member here, a line of
/// `plan_option_list` and a compile-time option below it.
struct plan_options {
  int stages = 1;             ///< S
  int micro_batches = 1;      ///< M
  int micro_batch_size = 32;  ///< B, the maximum of samples of a micro-batch
  gpipe::precision precision = gpipe::precision::float32;  ///< of the compiled network: see in_bf16 and both_precisions
  recompute_mode recompute = recompute_mode::except_last;
  schedule_kind schedule = schedule_kind::fill_drain;
  int chunks = 2;   ///< stages a worker, of the interleaved and looped schedules
  /// Of the interleaved schedule. Automatic: the one with the shorter step that fits the memory limit, if transfers
  /// have a cost (see `choose_lead`); else the shortest.
  lead_kind lead = lead_kind::automatic;
  int workers = 0;  ///< the schedule's workers are folded onto these, neighbours together; 0: as many as it has
  bool separate_memory = false;  ///< workers share no memory: a sent value stays in the sender's memory until it left
  int replicas = 1;  ///< R, of the pipeline: each runs M micro-batches of every mini-batch
  const gpipe::custom_schedule* custom_schedule = nullptr;  ///< of `schedule_kind::custom`: `&custom_schedule_of<mine>`
  /// Micro-batches whose parameter gradients a stage computes together, with fill-drain and recompute never: each
  /// gradient is then read and written once for all of them. The bits are the same. 0: as many as pay off and fit the
  /// memory limit (see `group_gradients`).
  int coalesce = 0;
  int optimizer_moments = 2;  ///< arrays that the optimizer keeps beside the parameters: Adam 2, SGD with momentum 1
  const detail::tensor_rule_memory* tensor_rule = nullptr;  ///< set by `optimizer<type>` and by a trainer
  bool average_weights = false;                             ///< keeps a moving average of the parameters
  /// The layers of a stage share one buffer for what they make from their parameters, such as the packed copies of
  /// weights. Each layer then makes it before each of its kernels, and not once per update. The bits are the same.
  bool share_packed_weights = false;
  device_spec device = this_cpu;  ///< costs and transfers are predicted for it
  const device_spec* devices = nullptr;  ///< of each stage, `device_count` of them, if they differ
  int device_count = 0;
  gpipe::profile profile{};    ///< of the model, in place of the analytic costs; of one kind of device
  bool cost_transfers = false;  ///< the cut pays for the values that cross it, over the device's link
  std::int64_t memory_limit = no_memory_limit;  ///< bytes of every stage

  constexpr schedule_choice chosen_schedule() const {
    if (schedule == schedule_kind::interleaved) return schedule_choice(interleaved{chunks, lead}).on_workers(workers);
    if (schedule != schedule_kind::custom) return schedule_choice(schedule, chunks).on_workers(workers);
    const bool splits = custom_schedule->admits(stages, micro_batches) &&
                        detail::splits_backward(*custom_schedule, stages, micro_batches);
    return schedule_choice(*custom_schedule, splits).on_workers(workers);
  }
  /// Micro-batches of a mini-batch, of all replicas.
  constexpr int all_micro_batches() const { return replicas * micro_batches; }
  /// Whether a stage certainly holds several micro-batches whose parameter gradients can be computed together.
  constexpr bool may_coalesce() const {
    return schedule == schedule_kind::fill_drain && recompute == recompute_mode::never;
  }
  /// Workers of the schedule before it is folded; 0: it does not admit the numbers.
  constexpr int max_workers() const {
    const schedule_choice whole = chosen_schedule().on_workers(0);
    return whole.admits(stages, micro_batches) ? whole.workers(stages) : 0;
  }
};

/// All options that are a number, a choice or a flag, in the order in which errors name them.
inline constexpr option_description plan_option_list[] = {
    detail::describe_number<&plan_options::stages>("stages", {1}, detail::agreed::yes, "stages of the pipeline"),
    detail::describe_number<&plan_options::replicas>("replicas", {1}, detail::agreed::yes, "copies of the pipeline"),
    detail::describe_number<&plan_options::workers>("workers", {.min = 0, .zero = "as many as the schedule has"},
                                                    detail::agreed::yes, "workers of each replica"),
    detail::describe_number<&plan_options::micro_batches>("micro_batches", {1}, detail::agreed::yes,
                                                          "micro-batches of a mini-batch in each replica"),
    detail::describe_number<&plan_options::micro_batch_size>("micro_batch_size", {1}, detail::agreed::yes,
                                                             "maximum of samples of a micro-batch"),
    detail::describe_choice<&plan_options::precision>("precision", precision::bf16, detail::agreed::yes,
                                                      "precision of activations, their gradients and matrix products"),
    detail::describe_choice<&plan_options::schedule>("schedule", schedule_kind::custom, detail::agreed::yes,
                                                     "the order of work"),
    detail::describe_number<&plan_options::chunks>("chunks", {1}, detail::agreed::yes,
                                                   "stages a worker, of the interleaved and looped schedules"),
    detail::describe_choice<&plan_options::lead>("lead", lead_kind::longest, detail::agreed::yes,
                                                 "forwards before the first backward, of the interleaved schedule"),
    detail::describe_choice<&plan_options::recompute>("recompute", recompute_mode::as_needed, detail::agreed::yes,
                                                      "which micro-batches run forward again before backward"),
    detail::describe_number<&plan_options::coalesce>("coalesce", {0, max_coalesced, "as many as pay off"},
                                                     detail::agreed::yes,
                                                     "micro-batches whose parameter gradients are computed together"),
    detail::describe_number<&plan_options::optimizer_moments>("optimizer_moments", {0, max_moments},
                                                              detail::agreed::yes,
                                                              "arrays that the optimizer keeps beside the parameters"),
    detail::describe_number<&plan_options::average_weights>("average_weights", {}, detail::agreed::yes,
                                                            "a moving average of the parameters is kept"),
    detail::describe_number<&plan_options::share_packed_weights>("share_packed_weights", {}, detail::agreed::no,
                                                                 "the layers of a stage share one buffer for packed "
                                                                 "weights"),
    detail::describe_number<&plan_options::separate_memory>("separate_memory", {}, detail::agreed::no,
                                                            "workers share no memory"),
    detail::describe_number<&plan_options::cost_transfers>("cost_transfers", {}, detail::agreed::no,
                                                           "the cut pays for the values that cross it"),
    detail::describe_number<&plan_options::memory_limit>("memory_limit", {1, no_memory_limit}, detail::agreed::no,
                                                         "bytes of every stage"),
};

namespace broken {

template <auto Member, auto Value, std::int64_t Min, std::int64_t Max, bool Holds>
struct option_in_range {
  static_assert(Holds, "gpipe: the value of a plan's option is out of range (Member, Value, Min, Max)");
};

}  // namespace broken

namespace detail {

template <auto Member>
constexpr option_range range_of() {
  for (const option_description& option : plan_option_list)
    if (option.get == get_option<Member>) return option.range;
  return {(std::numeric_limits<std::int64_t>::min)(), (std::numeric_limits<std::int64_t>::max)()};
}

/// An option of a compile-time plan: `plan<net, stages<4>>` is `plan<net, option<&plan_options::stages, 4>>`.
template <auto Member, auto Value>
struct option {
  static constexpr void choose(plan_options& o) {
    constexpr option_range range = detail::range_of<Member>();
    constexpr auto value = static_cast<std::int64_t>(Value);
    static_cast<void>(detail::asserted<broken::option_in_range<Member, Value, range.min, range.max,
                                                               (value >= range.min && value <= range.max)>>{});
    o.*Member = Value;
  }
};

}  // namespace detail

// Compile-time options, in any order. Those that take a type or several values are in static_options.hpp.
template <int S>
using stages = detail::option<&plan_options::stages, S>;
template <int R>
using replicas = detail::option<&plan_options::replicas, R>;
template <int W>
using workers = detail::option<&plan_options::workers, W>;
template <int M>
using micro_batches = detail::option<&plan_options::micro_batches, M>;
template <int B>
using micro_batch_size = detail::option<&plan_options::micro_batch_size, B>;
/// `precision_is<precision::bf16>`.
template <precision P>
using precision_is = detail::option<&plan_options::precision, P>;
template <int V>
using chunks = detail::option<&plan_options::chunks, V>;
template <lead_kind Kind>
using lead = detail::option<&plan_options::lead, Kind>;
template <recompute_mode Mode>
using recompute = detail::option<&plan_options::recompute, Mode>;
template <int G>
using coalesce = detail::option<&plan_options::coalesce, G>;
/// No stage needs more: the cut obeys the limit, and recompute as needed fits it. `memory_limit<16_GiB>`.
template <std::int64_t Bytes>
using memory_limit = detail::option<&plan_options::memory_limit, Bytes>;
/// The stages have memory for the moving average of `training_options::average_weights`.
using with_average_weights = detail::option<&plan_options::average_weights, true>;
/// A stage has memory for the packed weights of its largest layer alone.
using with_shared_packed_weights = detail::option<&plan_options::share_packed_weights, true>;
using with_transfers = detail::option<&plan_options::cost_transfers, true>;

/// Throws if no plan of a network of `slots` slots can have these options.
GPIPE_COLD constexpr void require_valid(const plan_options& o, int slots) {
  using detail::throw_error;
  for (const option_description& option : plan_option_list) detail::require_in_range(option, option.get(o));
  if (o.stages > slots) throw_error({"stages is ", o.stages}, {"choose 1 to ", slots, ", the number of layers"});
  if (o.device_count != 0 && o.device_count != o.stages)
    throw_error({"device_count is ", o.device_count, " and stages is ", o.stages}, {"name the device of every stage"});
  if ((o.schedule == schedule_kind::custom) != (o.custom_schedule != nullptr))
    throw_error({o.custom_schedule != nullptr ? "custom_schedule is set and schedule is not custom"
                                              : "schedule is custom and custom_schedule is null"},
                {"give both: .schedule = schedule_kind::custom, .custom_schedule = &custom_schedule_of<mine>"});
  if (o.micro_batch_size > (std::numeric_limits<int>::max)() / o.micro_batches / o.replicas)
    throw_error({"replicas x micro_batches x micro_batch_size is ", o.replicas, " x ", o.micro_batches, " x ",
                 o.micro_batch_size, ", more samples than an int counts"},
                {"choose smaller numbers"});
  if (o.coalesce > 1 && !o.may_coalesce()) {
    const bool drains = o.schedule == schedule_kind::fill_drain, keeps = o.recompute == recompute_mode::never;
    throw_error({"coalesce is ", o.coalesce, drains ? "" : ", schedule is ", drains ? "" : o.chosen_schedule().name(),
                 keeps ? "" : ", recompute is ", keeps ? "" : name_of(o.recompute)},
                {"choose ", drains ? "" : "fill-drain", drains || keeps ? "" : " and ", keeps ? "" : "recompute never",
                 ", or coalesce 0"});
  }
  if (const int max = o.max_workers(); max > 0 && o.workers > max)
    throw_error({"workers is ", o.workers, ", and ", o.chosen_schedule().name(), " of ",
                 detail::several(o.stages, "stage"), " has work for ", max},
                {"choose 1 to ", max, ", or 0 for all"});
}

}  // namespace gpipe
