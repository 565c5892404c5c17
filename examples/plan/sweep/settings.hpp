#pragma once

// The command line of `plan sweep`.

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gpipe/core/error.hpp>

#include "../choice.hpp"
#include "../settings.hpp"
#include "../text.hpp"

namespace example {

using namespace gpipe;

enum class sweep_model { own };
inline constexpr std::pair<const char*, sweep_model> sweep_models[] = {{"own", sweep_model::own}};

/// The schedules that train.
inline std::vector<std::pair<std::string, schedule_kind>> training_schedules() {
  auto all = words(schedules);
  std::erase_if(all, [](const auto& it) { return it.second == schedule_kind::forward_only; });
  return all;
}

/// A list without its repetitions; the order stays.
template <class Value>
void remove_repetitions(std::vector<Value>& list) {
  std::vector<Value> once;
  for (const Value& it : list)
    if (std::find(once.begin(), once.end(), it) == once.end()) once.push_back(it);
  list = std::move(once);
}

struct sweep_settings {
  sweep_model model = sweep_model::own;
  std::string costs, csv, svg;
  int devices = 8, batch = 128;
  bool devices_given = false;  // else they are at most half as many as the layers
  std::vector<int> stages;     // empty: of each schedule, as many as it has on the devices
  std::vector<int> micro_batches{4, 8, 16, 32, 64};
  // change: a schedule; if a sweep has it by default
  std::vector<schedule_kind> orders{schedule_kind::fill_drain, schedule_kind::one_f_one_b, schedule_kind::interleaved,
                                    schedule_kind::zb_h1,      schedule_kind::zb_v,        schedule_kind::dual_pipe_v};
  std::vector<recompute_mode> recompute{recompute_mode::as_needed};
  std::vector<std::int64_t> limits{INT64_MAX};  // bytes of a device
  std::vector<std::int64_t> links{0};           // bytes in a second; 0: transfers take no time

  static constexpr std::int64_t max_combinations = 1'000'000;

  bool read(int count, char** arguments) {
    if (!options("plan sweep: plans every combination of stages, micro-batches, schedule, recompute, memory limit and\n"
                 "link speed, as a CSV file and as a drawing. Lists have commas between their values.\n"
                 "Without --csv and --svg the CSV file is the output.")
             .choice("--model", model, words(sweep_models), "own is the model at the top of plan.cpp")
             .text("--costs", "FILE", costs,
                   "instead of a model the table of its layers' costs for one\n"
                   "                            micro-batch: see plan --help")
             .number("--devices", devices, 1, 100'000,
                     "devices, without the option at most half as many as layers;\n"
                     "                            a combination that needs more is refused")
             .numbers("--stages", stages, 1, 100'000,
                      "stages, a list (of each schedule, all that it has on the\n"
                      "                            devices)")
             .number("--batch", batch, 1, 1'000'000'000,
                     "samples of a step, which micro-batches share; without --costs")
             .numbers("--micro-batches", micro_batches, 1, 100'000, "micro-batches of a step, a list (4,8,16,32,64)")
             .choices("--schedule", orders, training_schedules(),
                      "a list\n"
                      "                            (fill-drain,1f1b,interleaved,zb-h1,zb-v,dualpipev)")
             .choices("--recompute", recompute, words(recomputes), "a list (as-needed)")
             .byte_list("--memory-limit", limits,
                        "limits of every device, or none: a list such as\n"
                        "                            none,24GiB,16GiB (none)",
                        {"none", INT64_MAX})
             .byte_list("--link", links,
                        "bytes in a second from a stage to the next, or free: a list\n"
                        "                            such as free,25GB (free)",
                        {"free", 0})
             .text("--csv", "FILE.csv", csv, "write a line a combination")
             .text("--svg", "FILE.svg", svg, "draw the time of a step over the micro-batches")
             .read(count, arguments))
      return false;
    devices_given = given("--devices", count, arguments);
    for (const char* const of_model : {"--batch", "--model"})
      if (!costs.empty() && given(of_model, count, arguments))
        throw error(concat({"option ", of_model, ": a table of --costs already holds the costs of one micro-batch"}),
                    "leave the option out");
    for (std::vector<int>* const list : {&stages, &micro_batches}) remove_repetitions(*list);
    for (std::vector<std::int64_t>* const list : {&limits, &links}) remove_repetitions(*list);
    remove_repetitions(orders);
    remove_repetitions(recompute);
    std::sort(micro_batches.begin(), micro_batches.end());
    std::sort(limits.rbegin(), limits.rend());
    require_bounded();
    return true;
  }

  /// The number of combinations.
  std::int64_t combinations() const {
    std::int64_t all = 1;
    for (const auto& [name, size] : sizes())
      all = all > INT64_MAX / size ? INT64_MAX : all * size;  // a list of the command line has few million values
    return all;
  }

 private:
  std::vector<std::pair<const char*, std::int64_t>> sizes() const {
    const auto size = [](const auto& list) {
      return std::max<std::int64_t>(1, static_cast<std::int64_t>(list.size()));
    };
    return {{"--stages", size(stages)},       {"--micro-batches", size(micro_batches)}, {"--schedule", size(orders)},
            {"--recompute", size(recompute)}, {"--memory-limit", size(limits)},         {"--link", size(links)}};
  }
  void require_bounded() const {
    if (combinations() <= max_combinations) return;
    const auto all = sizes();
    const auto most =
        *std::max_element(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
    throw error(concat({"plan sweep has ", combinations(), " combinations, more than ", max_combinations}),
                concat({"leave values out, first of ", most.first, ", which has ", most.second}));
  }
};

}  // namespace example
