#pragma once

// The command line of `plan largest`.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include <gpipe/core/descriptions/plan_choices.hpp>

#include "choice.hpp"
#include "families.hpp"
#include "settings.hpp"
#include "text.hpp"

namespace example {

using namespace gpipe;

// A choice that is left to the program, or a value. The values stand one behind their own.
inline constexpr int any = 0;
template <class List>
std::vector<std::pair<std::string, int>> words_or_any(const List& list) {
  std::vector<std::pair<std::string, int>> all{{"any", any}};
  for (const auto& [word, value] : list)
    if (std::string_view(word) != "forward-only") all.emplace_back(word, 1 + static_cast<int>(value));
  return all;
}

inline constexpr std::pair<const char*, shard> shards[] = {
    {"none", shard::none}, {"optimizer-state", shard::optimizer_state}, {"gradients", shard::gradients}};
inline constexpr std::pair<const char*, packed_copies> packed_choices[] = {
    {"automatic", packed_copies::automatic}, {"shared", packed_copies::shared}, {"kept", packed_copies::kept}};

/// The word of the command line for a value.
template <class List, class Value>
const char* word_for(const List& list, Value value) {
  for (const auto& [word, of] : list)
    if (of == value) return word;
  return "";
}

struct largest_settings {
  family_kind model = family_kind::amoebanet;
  int devices = 8, micro_batches = 0, micro_batch_size = 1, moments = 1, replicas = 1;
  std::vector<std::int64_t> memory{8_GiB};  // of each device, or of all
  int schedule = any, recompute = any, packed_weights = any;
  shard shared = shard::none;
  bool plain = false, brief = false;

  bool read(int count, char** arguments) {
    if (!options(
             "plan largest: how large a model fits on a number of devices, by the memory of its plan.\n"
             "It tries all schedules, with recompute as needed, and with the packed copies of weights that the plan\n"
             "decides to keep or shared ones, and prints which it took. --plain tries fill-drain, recompute\n"
             "always, and both packed copies of every weight.\n"
             "Also prints the table of the paper's largest models beside ours.")
             .choice("--model", model, words(families), "the family; own is the model at the top of plan.cpp")
             .number("--devices", devices, 1, 10'000, "devices of a replica, each with the stages of the schedule")
             .byte_list("--memory", memory,
                        "bytes of each device: one number for all, or a list\n"
                        "                            with commas, one for each (8GiB)")
             .byte_list("--memory-limit", memory, "the same as --memory")
             .number("--micro-batches", micro_batches, 0, 100'000,
                     "micro-batches of a step; 0: 128 of images to\n"
                     "                            classify, else 32")
             .number("--micro-batch-size", micro_batch_size, 1, 100'000, "samples of a micro-batch")
             .choice("--schedule", schedule, words_or_any(schedules), "the order of work")
             .choice("--recompute", recompute, words_or_any(recomputes),
                     "which micro-batches or layers run forward again before\n"
                     "                            backward; any: as-needed")
             .choice("--packed-weights", packed_weights, words_or_any(packed_choices),
                     "packed copies of weights: automatic lets the plan\n"
                     "                            decide, shared keeps one for all layers of a stage, kept\n"
                     "                            both of every weight; any: automatic or shared")
             .flag("--brief", brief, "leave out the paper's tables")
             .flag("--plain", plain, "choose fill-drain, always and kept where any is left")
             .number("--moments", moments, 0, max_moments,
                     "arrays of the parameters' size that the optimizer\n"
                     "                            keeps: RMSProp and SGD with momentum 1, Adam 2")
             .number("--replicas", replicas, 1, 10'000, "copies of the pipeline, each on --devices devices")
             .choice("--shard", shared, words(shards), "what replicas keep in shares, one each")
             .read(count, arguments))
      return false;
    if (memory.size() > 1 && memory.size() != static_cast<std::size_t>(devices))
      throw error(
          gpipe::detail::concat({"option --memory has ", memory.size(), " numbers, and --devices is ", devices}),
          "give one number for all devices, or one for each");
    if (memory.size() == 1) memory.resize(static_cast<std::size_t>(devices), memory[0]);
    if (plain && schedule == any) schedule = 1 + static_cast<int>(schedule_kind::fill_drain);
    if (plain && recompute == any) recompute = 1 + static_cast<int>(recompute_mode::always);
    if (plain && packed_weights == any) packed_weights = 1 + static_cast<int>(packed_copies::kept);
    return true;
  }

  /// The options that all configurations have in common.
  plan_options plan(int default_micro_batches) const {
    return {.micro_batches = micro_batches > 0 ? micro_batches : default_micro_batches,
            .micro_batch_size = micro_batch_size,
            .replicas = replicas,
            .shard = shared,
            .optimizer_moments = moments};
  }

  /// The configurations that the command line leaves.
  std::vector<configuration> configurations() const {
    std::vector<configuration> all;
    for (configuration way : all_configurations(schedule == any ? memory.size() : 2)) {
      if (schedule != any && static_cast<int>(way.schedule) + 1 != schedule) continue;
      if (packed_weights != any) {
        if (way.packed != packed_copies::automatic) continue;  // each schedule once
        way.packed = static_cast<packed_copies>(packed_weights - 1);
      }
      if (recompute != any) way.recompute = static_cast<recompute_mode>(recompute - 1);
      all.push_back(way);
    }
    return all;
  }
};

}  // namespace example
