#pragma once

// The frameworks that take a plan, and how each writes a cut.

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gpipe/core/error.hpp>
#include <gpipe/plan/schedule/any_schedule.hpp>
#include <gpipe/record/checkpoint/json_reader.hpp>

#include "layers.hpp"

namespace example {

using namespace gpipe;

enum class framework { megatron, torchtitan, deepspeed };

inline constexpr std::pair<const char*, framework> frameworks[] = {
    {"megatron", framework::megatron}, {"torchtitan", framework::torchtitan}, {"deepspeed", framework::deepspeed}};

/// The first layer of each stage, and the number of layers.
using cut_list = std::vector<int>;

/// A cut in Megatron-Core's language of layouts: E is the embedding, t a block, m the prediction of further tokens, L
/// the head with its loss, and | stands between stages; `t*3` are three, `(tt|)*3` three stages. Stage s is virtual
/// stage s / ranks of rank s % ranks. (megatron/core/transformer/pipeline_parallel_layer_layout.py)
inline std::string layout_of(const framework_layers& model, const cut_list& first) {
  constexpr char letters[] = {'E', 't', '\0', 'm', 'L'};
  std::vector<std::string> stages;
  for (std::size_t s = 0; s + 1 < first.size(); ++s) {
    std::string& text = stages.emplace_back();
    for (int l = first[s], length = 1; l < first[s + 1]; l += length, length = 1) {
      const layer_role role = model.roles[static_cast<std::size_t>(l)];
      while (l + length < first[s + 1] && model.roles[static_cast<std::size_t>(l + length)] == role) ++length;
      const char letter = letters[static_cast<int>(role)];
      if (length > 2) text += letter + ("*" + std::to_string(length));
      else text.append(static_cast<std::size_t>(length), letter);
    }
  }
  std::string text;
  for (std::size_t s = 0; s < stages.size();) {
    std::size_t equal = 1;  // the last stage has a letter of its own
    while (s + equal < stages.size() && stages[s + equal] == stages[s]) ++equal;
    if (equal > 2) text += "(" + stages[s] + "|)*" + std::to_string(equal);
    else
      for (std::size_t i = 0; i < equal; ++i) text += stages[s] + (s + i + 1 < stages.size() ? "|" : "");
    s += equal;
  }
  return text;
}

/// A cut as torchtitan's list of modules: [["tok_embeddings", "layers.0"], ...].
inline std::string modules_of(const framework_layers& model, const cut_list& first) {
  std::string text = "[";
  int block = 0;
  for (std::size_t s = 0; s + 1 < first.size(); ++s) {
    text += s == 0 ? "\n    [" : ",\n    [";
    for (int l = first[s]; l < first[s + 1]; ++l) {
      const layer_role role = model.roles[static_cast<std::size_t>(l)];
      const std::string name = role == layer_role::embedding ? "tok_embeddings"
                               : role == layer_role::norm    ? "norm"
                               : role == layer_role::head    ? "lm_head"
                                                             : "layers." + std::to_string(block++);
      text += (l == first[s] ? "\"" : ", \"") + name + '"';
    }
    text += ']';
  }
  return text + "\n]";
}

/// Whether stage s is on worker s % workers, for every s.
inline bool is_loop(const schedule_choice& order, int stages) {
  for (int s = 0; s < stages; ++s)
    if (order.worker_of(stages, s) != s % order.workers(stages)) return false;
  return true;
}

/// Arguments of Megatron-LM's programs.
inline std::string megatron_text(const framework_layers& model, const cut_list& first, int ranks) {
  return gpipe::detail::concat({"--pipeline-model-parallel-size ", ranks, "\n--pipeline-model-parallel-layout \"",
                                layout_of(model, first), "\"\n"});
}

/// Lines of a function of torchtitan that makes a configuration. Its names of schedules only choose the ranks of
/// stages: the order is that of the file.
inline std::string torchtitan_text(const framework_layers& model, const cut_list& first, const schedule_choice& order,
                                   int micro_batches, const std::string& schedule_file) {
  const int stages = static_cast<int>(first.size()) - 1, ranks = order.workers(stages);
  std::string text;
  const auto set = [&](const char* name, const std::string& value) {
    text += std::string("config.parallelism.") + name + " = " + value + "\n";
  };
  std::string quoted_file;
  gpipe::detail::append_json(quoted_file, schedule_file);
  set("pipeline_parallel_degree", std::to_string(ranks));
  set("num_pp_microbatches", std::to_string(micro_batches));
  set("pipeline_parallel_schedule", is_loop(order, stages) ? "\"PipelineScheduleMulti\"" : "\"ZBVZeroBubble\"");
  set("pipeline_parallel_schedule_csv", quoted_file);
  set("module_fqns_per_model_part", modules_of(model, first));
  return text;
}

/// A module in Python with a PipelineModule that is cut so. Its own ways to cut go by numbers of layers or parameters.
inline std::string deepspeed_text(const framework_layers& model, const cut_list& first) {
  std::string parts;
  for (const int l : first) parts += (parts.empty() ? "" : ", ") + std::to_string(l);
  std::string layers = "embedding, " + std::to_string(model.count(layer_role::block)) + " blocks";
  if (model.count(layer_role::norm) > 0) layers += ", norm";
  if (model.count(layer_role::prediction) > 0)
    layers += ", " + std::to_string(model.count(layer_role::prediction)) + " predictions";
  return "# Give PlannedPipeline these " + std::to_string(model.roles.size()) + " layers: " + layers +
         ", head.\n"
         "from deepspeed.pipe import PipelineModule\n\n"
         "PARTS = [" +
         parts +
         "]  # the first layer of each stage, and the end\n\n\n"
         "class PlannedPipeline(PipelineModule):\n"
         "    def _partition_layers(self, method=None):\n"
         "        if self.num_stages != len(PARTS) - 1 or self._num_layers != PARTS[-1]:\n"
         "            raise ValueError(f\"planned for {len(PARTS) - 1} stages of {PARTS[-1]} layers, not for \"\n"
         "                             f\"{self.num_stages} of {self._num_layers}\")\n"
         "        self.parts = PARTS\n"
         "        self._set_bounds(start=PARTS[self.stage_id], stop=PARTS[self.stage_id + 1])\n";
}

}  // namespace example
