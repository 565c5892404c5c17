#pragma once

// Plans a model of another framework, and writes the plan for it.

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <string>
#include <vector>

#include <gpipe/plan/timetable/schedule_table.hpp>
#include <gpipe/record/file/write_file.hpp>

#include "../tables.hpp"
#include "export_settings.hpp"
#include "framework.hpp"
#include "hugging_face.hpp"
#include "layers.hpp"
#include "moved_plan.hpp"

namespace example {

using namespace gpipe;

inline framework_layers chosen_layers(const export_settings& chosen) {
  if (!chosen.costs.empty()) return layers_of_table(chosen.costs);
  const decoder model = decoder_of(chosen.config);
  constexpr std::int64_t usual = 4096;
  const std::int64_t tokens = chosen.tokens > 0 ? chosen.tokens : std::min(usual, model.positions);
  if (tokens > model.positions)
    throw error("option --tokens is " + std::to_string(tokens) + ", and the model takes " +
                    std::to_string(model.positions) + " at most",
                "choose at most as many");
  const device_spec& device = *chosen.on;
  return decoder_costs(model, chosen.micro_batch_size, tokens, device)
      .layers(gpipe::detail::concat({chosen.config, ", ", model.family, ", micro-batches of ",
                                     several(chosen.micro_batch_size, "text"), " of ", tokens, " tokens on ",
                                     device.name}));
}

inline void write_text(const std::string& path, const std::string& text) {
  write_file(path, [&](std::ostream& out) { out << text; });
}

/// The text that the framework takes. For torchtitan also writes the folder.
inline std::string text_for(const export_settings& chosen, const framework_layers& model, const cut_list& first) {
  const schedule_choice order = chosen.how.order();
  const int stages = chosen.how.stages;
  switch (chosen.target) {
    case framework::megatron:
      return megatron_text(model, first, order.workers(stages));
    case framework::deepspeed:
      return deepspeed_text(model, first);
    case framework::torchtitan:
      break;
  }
  std::filesystem::create_directories(chosen.output);
  const std::string schedule_file = chosen.output + "/schedule.csv";
  write_text(schedule_file, schedule_text(order, stages, chosen.how.micro_batches));
  return torchtitan_text(model, first, order, chosen.how.micro_batches, schedule_file);
}

inline void print_export(const export_settings& chosen) {
  const framework_layers all = chosen_layers(chosen);
  const bool joins = chosen.target == framework::megatron;
  const framework_layers model = joins ? all.joined() : all;
  const int blocks = model.count(layer_role::block);
  if (chosen.target == framework::torchtitan && model.count(layer_role::prediction) > 0)
    throw error("the table has a line of multi-token prediction, which torchtitan's decoders do not have",
                "leave it out", {.file = chosen.costs});
  if (chosen.how.stages > blocks)
    throw error(
        "option --stages is " + std::to_string(chosen.how.stages) + ", and the model has " + several(blocks, "block"),
        "choose at most as many stages as blocks");
  const subject it = model.planned();
  const planned best = moved_plan(it, chosen.how);
  const cut_list first = cut_of(best);
  const std::string text = text_for(chosen, model, first);
  const std::string file = chosen.target == framework::torchtitan ? chosen.output + "/parallelism.py" : chosen.output;
  if (!file.empty()) write_text(file, text);
  if (!chosen.plain) {
    std::cout << it.title << ": " << several(it.layers(), "layer") << "\n";
    print_stages(it, chosen.how, best);
    const planned even = planner(it, chosen.how).plan_of(even_cut(model, chosen.how.stages));
    std::cout << "\nA step takes " << time(best.makespan) << ", at least " << time(best.bound)
              << "; with equal numbers of blocks " << time(even.makespan) << ", "
              << fixed(static_cast<double>(even.makespan) / static_cast<double>(best.makespan), 2)
              << " times as long.\n\n";
    if (!file.empty()) std::cout << "Written to " << file << ":\n";
  }
  std::cout << text;
}

}  // namespace example
