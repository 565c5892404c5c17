#pragma once

// The command line of `plan export`.

#include <string>
#include <utility>

#include <gpipe/plan/cost/device_spec.hpp>

#include "../choice.hpp"
#include "../settings.hpp"
#include "framework.hpp"

namespace example {

using namespace gpipe;

/// A whole micro-batch runs again, or nothing: other frameworks choose once for all.
inline constexpr std::pair<const char*, recompute_mode> export_recomputes[] = {{"never", recompute_mode::never},
                                                                               {"always", recompute_mode::always}};

struct export_settings {
  framework target = framework::megatron;
  choice how{.schedule = schedule_kind::one_f_one_b, .recompute = recompute_mode::never};
  int micro_batch_size = 1, tokens = 0;
  const device_spec* on = &h100;
  std::string config, costs, output;
  bool plain = false;

  bool read(int count, char** arguments) {
    bool given = false;
    std::vector<std::pair<std::string, framework>> targets = words(frameworks);
    if (!options("plan export: cuts a model of another framework into pipeline stages, and writes the cut in the\n"
                 "framework's own language. Cuts lie between blocks.")
             .choice("--for", target, targets, "the framework")
             .text("--config", "FILE", config,
                   "config.json of a model of Hugging Face: gpt2, llama,\n"
                   "                            mistral or qwen2; costs are counted from its structure")
             .text("--costs", "FILE", costs,
                   "or a table of measured costs, as `plan --costs` takes it: the\n"
                   "                            first line is the embedding, the last one the head, and each\n"
                   "                            other a block; a norm before the head is named norm, and lines\n"
                   "                            of multi-token prediction mtp")
             .number("--stages", how.stages, 1, 10'000, "stages of the pipeline, on all ranks together")
             .number("--micro-batches", how.micro_batches, 1, 100'000, "micro-batches of a step")
             .number("--micro-batch-size", micro_batch_size, 1, 1'000'000, "texts of a micro-batch, with --config")
             .number("--tokens", tokens, 0, 100'000'000,
                     "tokens of a text, with --config; 0: the model's longest text, at\n"
                     "                            most 4096")
             .choice("--device", on, words(device_names), "the device, with --config")
             .choice("--schedule", how.schedule, words(schedules),
                     "the order of work; megatron knows 1f1b and interleaved,\n"
                     "                            deepspeed 1f1b, and torchtitan reads any from a table")
             .number("--chunks", how.chunks, 1, 1000, "stages of a rank, for interleaved schedules and looped-bfs")
             .choice("--recompute", how.recompute, words(export_recomputes),
                     "whether blocks run forward again before backward")
             .bytes("--memory-limit", how.limit, "limit of every stage, such as 16GiB; the cut obeys it")
             .text("--output", "PATH", output, "the file to write, for torchtitan a folder")
             .flag("--plain", plain, "print only what the framework takes")
             .read(count, arguments))
      return false;
    for (int i = 1; i < count; ++i) given = given || std::string_view(arguments[i]).starts_with("--for");
    if (!given) throw error("option --for is missing", "write --for megatron, --for torchtitan or --for deepspeed");
    if (config.empty() == costs.empty())
      throw error(
          config.empty() ? "options --config and --costs are missing" : "options --config and --costs are both given",
          "give one of them: a config.json, or a table of costs");
    if (!costs.empty() && (micro_batch_size != 1 || tokens != 0))
      throw error(
          "options --micro-batch-size and --tokens: a table of --costs already holds the costs of one micro-batch",
          "leave them out, or give a table for such micro-batches");
    if (target == framework::torchtitan && output.empty())
      throw error("option --output is missing", "give a folder: torchtitan reads the schedule from a file in it");
    require_known_schedule();
    if (!gpipe::detail::has_chunks(how.schedule) && how.chunks != choice{}.chunks)
      throw error("option --chunks does nothing with " + std::string(name_of(how.schedule)),
                  "leave it out, or choose --schedule interleaved");
    return true;
  }

 private:
  void require_known_schedule() const {
    const bool simple = how.schedule == schedule_kind::one_f_one_b;
    const bool known = target == framework::torchtitan ? how.schedule != schedule_kind::forward_only
                       : target == framework::megatron ? simple || how.schedule == schedule_kind::interleaved
                                                       : simple;
    if (known) return;
    const char* remedies[] = {"choose 1f1b or interleaved", "choose one that trains", "choose 1f1b"};
    throw error("option --schedule: " + std::string(frameworks[static_cast<int>(target)].first) + " has no " +
                    name_of(how.schedule),
                remedies[static_cast<int>(target)]);
  }
};

}  // namespace example
