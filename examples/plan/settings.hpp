#pragma once

// The command line of plan.

#include <algorithm>
#include <iterator>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "../options.hpp"
#include "choice.hpp"

namespace example {

using namespace gpipe;

/// A list of words and values, as the options take it.
template <class List>
auto words(const List& list) {
  using value = std::remove_const_t<decltype(std::begin(list)->second)>;
  return std::vector<std::pair<std::string, value>>(std::begin(list), std::end(list));
}

/// Whether the command line names an option.
inline bool given(std::string_view name, int count, char** arguments) {
  return std::any_of(arguments + 1, arguments + count,
                     [name](std::string_view it) { return it.substr(0, it.find('=')) == name; });
}

struct settings {
  choice how;
  int micro_batch_size = 8;
  std::string costs, svg;
  bool plain = false, stages_given = false;

  /// `more`: the text behind the first lines of the help.
  bool read(int count, char** arguments, const std::string& more = "") {
    auto all_schedules = words(schedules);
    all_schedules.emplace_back("searched", schedule_kind::searched);
    if (!options("plan: cuts a model into pipeline stages, and predicts the time and the memory of a step.\n"
                 "Without --costs it plans the paper's Transformers and the model at the top of examples/plan.cpp." +
                 more)
             .text("--costs", "FILE", costs,
                   "plan the layers of a table: a header line\n"
                   "                            name,forward_ns,backward_ns,parameter_bytes,activation_bytes\n"
                   "                            (and output_bytes, if known) and a line a layer, for one\n"
                   "                            micro-batch. parameter_bytes are its parameters, their\n"
                   "                            gradients and the optimizer's state; activation_bytes are kept\n"
                   "                            for backward; output_bytes are read by the next layer.\n"
                   "                            Zero-bubble schedules split backward in halves")
             .number("--stages", how.stages, 1, 100'000, "stages of the pipeline, at most as many as layers")
             .number("--micro-batches", how.micro_batches, 1, 100'000, "micro-batches of a step")
             .number("--micro-batch-size", micro_batch_size, 1, 1'000'000, "samples of a micro-batch, without --costs")
             .choice("--schedule", how.schedule, all_schedules,
                     "the order of work; searched: a table for these stages,\n"
                     "                            two on each device, as a V")
             .choice("--recompute", how.recompute, words(recomputes),
                     "which micro-batches run forward again before backward;\n"
                     "                            as-needed: as few as the memory limit allows")
             .bytes("--memory-limit", how.limit, "limit of every stage, such as 16GiB; the cut obeys it")
             .text("--svg", "FILE.svg", svg, "draw the cut and the timetable")
             .flag("--plain", plain, "print for programs: a line a stage, makespan_ns and lower_bound_ns")
             .read(count, arguments))
      return false;
    stages_given = given("--stages", count, arguments);
    if (!costs.empty() && given("--micro-batch-size", count, arguments))
      throw error("option --micro-batch-size: a table of --costs already holds the costs of one micro-batch",
                  "leave the option out, or give a table for such micro-batches");
    return true;
  }
};

}  // namespace example
