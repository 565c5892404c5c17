#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>

#include <gpipe/core/config.hpp>
#include <gpipe/core/descriptions/optimizer.hpp>
#include <gpipe/core/error.hpp>
#include <gpipe/layer/contract/panels.hpp>
#include <gpipe/model/promises.hpp>
#include <gpipe/plan/options/plan_options.hpp>
#include <gpipe/plan/schedule/any_schedule.hpp>
#include <gpipe/plan/timetable/recompute.hpp>

namespace gpipe {

struct plan_options;

namespace detail {

/// Whether all processes of a job must choose the same value.
enum class agreed : bool { no, yes };

}  // namespace detail

/// The values that an option may have.
struct option_range {
  std::int64_t min = 1, max = (std::numeric_limits<int>::max)();
  const char* zero = nullptr;  ///< the meaning of 0; null: 0 is a number like any other
};

/// One option of a plan. The range check, the agreement between processes, the summary and a program's command line all
/// read this description. A value is a whole number; a choice is the number of its enumerator, a flag is 0 or 1.
struct option_description {
  const char* name;  ///< of the member of `plan_options`
  const char* help;  ///< for a command line
  option_range range;
  detail::agreed across_processes;
  bool is_flag;
  std::int64_t (*get)(const plan_options&);
  void (*set)(plan_options&, std::int64_t);
  std::string (*text)(std::uint64_t);  ///< a value in words
};

namespace detail {

template <auto Member>
constexpr std::int64_t get_option(const plan_options& o) {
  return static_cast<std::int64_t>(o.*Member);
}
template <auto Member>
constexpr void set_option(plan_options& o, std::int64_t value) {
  o.*Member = static_cast<std::remove_reference_t<decltype(o.*Member)>>(value);
}

GPIPE_COLD inline std::string number_in_words(std::uint64_t value) {
  return std::to_string(static_cast<std::int64_t>(value));
}

/// A whole number, or a flag.
template <auto Member>
constexpr option_description describe_number(const char* name, option_range range, agreed across_processes,
                                             const char* help) {
  constexpr bool is_flag = std::is_same_v<decltype(Member), bool plan_options::*>;
  if (is_flag) range = {0, 1};
  return {name, help, range, across_processes, is_flag, get_option<Member>, set_option<Member>, number_in_words};
}
/// An enumeration up to `last`, with a function `name_of`.
template <auto Member, class Choice>
constexpr option_description describe_choice(const char* name, Choice last, agreed across_processes, const char* help) {
  return {name,
          help,
          {0, static_cast<std::int64_t>(last)},
          across_processes,
          false,
          get_option<Member>,
          set_option<Member>,
          [](std::uint64_t value) { return std::string(name_of(static_cast<Choice>(value))); }};
}

GPIPE_COLD constexpr void require_in_range(const option_description& option, std::int64_t value) {
  const auto [min, max, zero] = option.range;
  if (value >= min && value <= max) return;
  const bool open = max >= (std::numeric_limits<int>::max)();
  if (zero != nullptr && open) throw_error({option.name, " is ", value}, {"choose at least 1, or 0 for ", zero});
  if (zero != nullptr) throw_error({option.name, " is ", value}, {"choose 1 to ", max, ", or 0 for ", zero});
  if (open) throw_error({option.name, " is ", value}, {"choose at least ", min});
  throw_error({option.name, " is ", value}, {"choose ", min, " to ", max});
}

}  // namespace detail

constexpr schedule_choice plan_options::chosen_schedule() const {
  if (schedule == schedule_kind::interleaved) return schedule_choice(interleaved{chunks, warmup}).on_workers(workers);
  if (custom_schedule == nullptr) return schedule_choice(schedule, chunks).on_workers(workers);
  const bool splits = custom_schedule->admits(stages, micro_batches) &&
                      detail::splits_backward(*custom_schedule, stages, micro_batches);
  return schedule_choice(*custom_schedule, splits).on_workers(workers);
}

constexpr int plan_options::max_workers() const {
  const schedule_choice whole = chosen_schedule().on_workers(0);
  return whole.admits(stages, micro_batches) ? whole.workers(stages) : 0;
}

constexpr std::int64_t plan_options::limit_of(int stage) const {
  const std::int64_t of_device = device_of(stage).memory_limit;
  if (of_device == no_memory_limit) return memory_limit;
  const std::int64_t part = of_device / stages_beside(stage);
  return part < memory_limit ? part : memory_limit;
}
constexpr int plan_options::stages_beside(int stage) const {
  const schedule_choice chosen = chosen_schedule();
  int count = 0;
  for (int s = 0; s < stages; ++s) count += chosen.worker_of(stages, s) == chosen.worker_of(stages, stage);
  return count;
}

// change: a plan option
/// All options that are a number, a choice or a flag, in the order in which errors name them.
inline constexpr option_description plan_option_list[] = {
    detail::describe_number<&plan_options::stages>("stages", {1}, detail::agreed::yes, "stages of the pipeline"),
    detail::describe_number<&plan_options::replicas>("replicas", {1}, detail::agreed::yes, "copies of the pipeline"),
    detail::describe_choice<&plan_options::shard>("shard", shard::gradients, detail::agreed::yes,
                                                  "what replicas keep in shares, one each"),
    detail::describe_number<&plan_options::workers>("workers", {.min = 0, .zero = "as many as the schedule has"},
                                                    detail::agreed::yes, "workers of each replica"),
    detail::describe_number<&plan_options::micro_batches>("micro_batches", {1}, detail::agreed::yes,
                                                          "micro-batches of a mini-batch in each replica"),
    detail::describe_number<&plan_options::micro_batch_size>("micro_batch_size", {1}, detail::agreed::yes,
                                                             "maximum number of samples of a micro-batch"),
    // assumes: half precision is bf16
    detail::describe_choice<&plan_options::precision>("precision", precision::bf16, detail::agreed::yes,
                                                      "precision of activations, their gradients and matrix products"),
    detail::describe_number<&plan_options::tf32>("tf32", {}, detail::agreed::yes,
                                                 "products of floats round their factors to TF32, on GPUs"),
    detail::describe_choice<&plan_options::schedule>("schedule", schedule_kind::searched, detail::agreed::yes,
                                                     "the order of work"),
    detail::describe_number<&plan_options::chunks>("chunks", {1}, detail::agreed::yes,
                                                   "stages a worker, of the interleaved, looped and searched "
                                                   "schedules"),
    detail::describe_choice<&plan_options::warmup>("warmup", warmup_kind::longest, detail::agreed::yes,
                                                   "forwards before the first backward, of the interleaved schedule"),
    // change: a recompute mode; the last mode
    detail::describe_choice<&plan_options::recompute>("recompute", recompute_mode::as_needed, detail::agreed::yes,
                                                      "which micro-batches run forward again before backward"),
    detail::describe_number<&plan_options::group_gradients>(
        "group_gradients", {0, max_gradient_group, "as many as pay off"}, detail::agreed::yes,
        "micro-batches whose parameter gradients are computed together"),
    detail::describe_number<&plan_options::optimizer_moments>("optimizer_moments", {0, max_moments},
                                                              detail::agreed::yes,
                                                              "arrays that the optimizer keeps beside the parameters"),
    detail::describe_number<&plan_options::average_weights>("average_weights", {}, detail::agreed::yes,
                                                            "a moving average of the parameters is kept"),
    detail::describe_number<&plan_options::share_packed_weights>("share_packed_weights", {}, detail::agreed::no,
                                                                 "the layers of a stage share one buffer for packed "
                                                                 "weights"),
    detail::describe_number<&plan_options::keep_packed_weights>("keep_packed_weights", {}, detail::agreed::no,
                                                                "every layer keeps both packed copies of its weights"),
    detail::describe_number<&plan_options::separate_memory>("separate_memory", {}, detail::agreed::no,
                                                            "workers share no memory"),
    detail::describe_number<&plan_options::cost_transfers>("cost_transfers", {}, detail::agreed::no,
                                                           "the cut pays for the values that cross it"),
    detail::describe_number<&plan_options::cost_parameters>("cost_parameters", {}, detail::agreed::no,
                                                            "a micro-batch pays for the parameters that it reads"),
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
/// The arrays that replicas keep in shares, one share each: `sharded<shard::optimizer_state>`.
template <shard What>
using sharded = detail::option<&plan_options::shard, What>;
template <int W>
using workers = detail::option<&plan_options::workers, W>;
template <int M>
using micro_batches = detail::option<&plan_options::micro_batches, M>;
template <int B>
using micro_batch_size = detail::option<&plan_options::micro_batch_size, B>;
// change: a plan option; the compile-time option
/// `precision_is<precision::bf16>`.
template <precision P>
using precision_is = detail::option<&plan_options::precision, P>;
/// Products of floats round their factors to TF32, on GPUs.
using with_tf32 = detail::option<&plan_options::tf32, true>;
template <int V>
using chunks = detail::option<&plan_options::chunks, V>;
template <warmup_kind Kind>
using warmup = detail::option<&plan_options::warmup, Kind>;
template <recompute_mode Mode>
using recompute = detail::option<&plan_options::recompute, Mode>;
template <int G>
using group_gradients = detail::option<&plan_options::group_gradients, G>;
/// No stage needs more: the cut obeys the limit, and recompute as needed fits it. `memory_limit<16_GiB>`.
template <std::int64_t Bytes>
using memory_limit = detail::option<&plan_options::memory_limit, Bytes>;
/// The stages have memory for the moving average of `training_options::average_weights`.
using with_average_weights = detail::option<&plan_options::average_weights, true>;
/// A stage has memory for the packed weights of its largest layer alone.
using with_shared_packed_weights = detail::option<&plan_options::share_packed_weights, true>;
/// Every layer has memory for both packed copies of its weights.
using with_kept_packed_weights = detail::option<&plan_options::keep_packed_weights, true>;
using with_transfers = detail::option<&plan_options::cost_transfers, true>;
using with_parameter_costs = detail::option<&plan_options::cost_parameters, true>;

namespace detail {

/// Throws unless all devices or none name a process, without a gap in the numbers, and a worker's stages the same one.
GPIPE_COLD constexpr void require_processes(const plan_options& o) {
  for (int s = 0; s < o.device_count; ++s)
    if (o.devices[s].process >= o.stages)
      throw_error({"devices[", s, "] is in process ", o.devices[s].process},
                  {"choose 0 to ", o.stages - 1, ": each process has a stage"}, location{.stage = s});
  const int processes = o.named_processes();
  if (processes == 0 && o.device_count == 0 && o.device.process >= 0)
    throw_error({"device names process ", o.device.process, ", and every stage has this device"},
                {"name the device of each stage in devices"});
  if (processes == 0) return;
  for (int s = 0; s < o.device_count; ++s)
    if (o.devices[s].process < 0)
      throw_error({"devices[", s, "] names no process, and others do"},
                  {"name the process of each: .devices[", s, "] = device.in_process(0)"}, location{.stage = s});
  for (int p = 0; p < processes; ++p) {
    int stages = 0;
    for (int s = 0; s < o.device_count; ++s) stages += o.devices[s].process == p;
    if (stages == 0)
      throw_error({"no device is in process ", p, ", and one is in process ", processes - 1},
                  {"number the processes of a replica from 0 without a gap"});
  }
  const schedule_choice chosen = o.chosen_schedule();
  for (int s = 0; o.max_workers() > 0 && s < o.stages; ++s)
    for (int before = 0; before < s; ++before)
      if (const int worker = chosen.worker_of(o.stages, s);
          worker == chosen.worker_of(o.stages, before) && o.devices[s].process != o.devices[before].process)
        throw_error({"stages ", before, " and ", s, " are worker ", worker, "'s, and their devices are in processes ",
                     o.devices[before].process, " and ", o.devices[s].process},
                    {"name one process for all stages of a worker"}, location{.stage = s});
}

}  // namespace detail

// assumes: int positions
/// Throws if no plan of a network of `layers` layers can have these options.
GPIPE_COLD constexpr void require_valid(const plan_options& o, int layers) {
  using detail::throw_error;
  for (const option_description& option : plan_option_list) detail::require_in_range(option, option.get(o));
  if (o.stages > layers) throw_error({"stages is ", o.stages}, {"choose 1 to ", layers, ", the number of layers"});
  if ((o.devices == nullptr) != (o.device_count == 0))
    throw_error({o.devices == nullptr ? "" : "devices is set and ", "device_count is ", o.device_count,
                 o.devices == nullptr ? " and devices is null" : ""},
                {"give both, a device for every stage: .devices = each, .device_count = ", o.stages});
  if (o.device_count != 0 && o.device_count != o.stages)
    throw_error({"device_count is ", o.device_count, " and stages is ", o.stages}, {"name the device of every stage"});
  if (!o.recompute_layers.empty() && o.recompute != recompute_mode::as_needed && o.recompute != recompute_mode::never)
    throw_error({"recompute_layers names layers, and recompute is ", name_of(o.recompute), ", for whole micro-batches"},
                {"choose one of them"});
  if (o.share_packed_weights && o.keep_packed_weights)
    throw_error({"share_packed_weights and keep_packed_weights are both true"}, {"choose one of them"});
  for (int s = 0; s < o.stages; ++s)
    if (const device_spec& device = o.device_of(s); device.memory_limit < 1)
      throw_error({"the memory_limit of device '", device.name, "' is ", device.memory_limit}, {"choose at least 1"},
                  detail::location{.stage = s});
  if (o.schedule == schedule_kind::searched && (o.chunks > 2 || o.stages % o.chunks != 0))
    throw_error({"schedule is searched, chunks is ", o.chunks, " and stages is ", o.stages},
                {"choose chunks 1, for one stage a worker, or chunks 2 and an even number of stages, for two as a V"});
  if (o.schedule != schedule_kind::searched && (o.schedule == schedule_kind::custom) != (o.custom_schedule != nullptr))
    throw_error({o.custom_schedule != nullptr ? "custom_schedule is set and schedule is not custom"
                                              : "schedule is custom and custom_schedule is null"},
                {"give both: .schedule = schedule_kind::custom, .custom_schedule = &custom_schedule_of<mine>"});
  if (o.micro_batch_size > (std::numeric_limits<int>::max)() / o.micro_batches / o.replicas)
    throw_error({"replicas x micro_batches x micro_batch_size is ", o.replicas, " x ", o.micro_batches, " x ",
                 o.micro_batch_size, ", more samples than an int counts"},
                {"choose smaller numbers"});
  if (o.group_gradients > 1 && !o.may_group_gradients()) {
    const bool drains = o.schedule == schedule_kind::fill_drain, keeps = o.keeps_all();
    throw_error(
        {"group_gradients is ", o.group_gradients, drains ? "" : ", schedule is ",
         drains ? "" : o.chosen_schedule().name(), keeps ? "" : ", recompute is ", keeps ? "" : name_of(o.recompute)},
        {"choose ", drains ? "" : "fill-drain", drains || keeps ? "" : " and ", keeps ? "" : "recompute never",
         ", or group_gradients 0"});
  }
  if (const int max = o.max_workers(); max > 0 && o.workers > max)
    throw_error({"workers is ", o.workers, ", and ", o.chosen_schedule().name(), " of ",
                 detail::several(o.stages, "stage"), " has work for ", max},
                {"choose 1 to ", max, ", or 0 for all"});
  detail::require_processes(o);
}

}  // namespace gpipe
