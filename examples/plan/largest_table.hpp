#pragma once

// The output of `plan largest`.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

#include <gpipe/core/text/quantity.hpp>

#include "families.hpp"
#include "largest_settings.hpp"
#include "text.hpp"

namespace example {

using namespace gpipe;

/// "8 devices of 8 GiB", or "2 devices of 8 GiB and 16 GiB".
inline std::string devices_in_words(const largest_settings& chosen) {
  std::string text = several(chosen.devices, "device") + " of ";
  const bool equal = std::all_of(chosen.memory.begin(), chosen.memory.end(),
                                 [&](std::int64_t memory) { return memory == chosen.memory[0]; });
  for (std::size_t d = 0; d < (equal ? 1 : chosen.memory.size()); ++d)
    text += (d == 0 ? "" : d + 1 == chosen.memory.size() ? " and " : ", ") + bytes(chosen.memory[d]);
  return text + (chosen.replicas > 1 ? ", in each of " + several(chosen.replicas, "replica") : "");
}

/// A line about a choice of shares that does nothing, or little.
inline std::string shard_in_words(const largest_settings& chosen, int micro_batches) {
  const std::string option = std::string("--shard ") + word_for(shards, chosen.shared);
  if (chosen.shared == shard::none) return "";
  if (chosen.replicas == 1) return option + " does nothing: there is one replica, and --replicas chooses more.\n";
  if (chosen.shared != shard::gradients || micro_batches == 1) return "";
  return option + ": gradients are whole in every replica until the step's last backward, because " +
         several(micro_batches, "micro-batch") + " add to them.\n";
}

/// The recomputes of the stages of a plan: "layers in 3 stages, micro-batches in 1".
inline std::string recomputed_in_words(const packed_model& plan) {
  std::string text;
  for (const auto& [what, word] :
       {std::pair{recomputed::layers, "layers in "}, {recomputed::micro_batches, "micro-batches in "}})
    if (const int count = plan.stages_with(what); count > 0)
      text += (text.empty() ? word : ", " + std::string(word)) +
              (text.empty() ? several(count, "stage") : std::to_string(count));
  return text.empty() ? "nothing" : text;
}

/// The device that runs out first: "device 3, 12 MiB more".
inline std::string shortage_in_words(const shortage& lacks, const std::vector<std::int64_t>& memory) {
  if (lacks.device < 0) return "-";
  const std::int64_t more = lacks.bytes - memory[static_cast<std::size_t>(lacks.device)];
  return "device " + std::to_string(lacks.device) + ", " + bytes(more) + " more";
}

inline std::vector<std::string> largest_row(const family_member& it, const largest_model& found,
                                            const std::vector<std::int64_t>& memory) {
  if (found.more < 0)
    return {it.width,
            "-",
            "not even " + std::to_string(it.depth) + " fits",
            "",
            "",
            "",
            "",
            "",
            "",
            "",
            shortage_in_words(found.next, memory)};
  const double each = static_cast<double>(found.plan.parameter_bytes()) / static_cast<double>(found.parameters);
  return {it.width,
          (found.whole ? "" : "at least ") + std::to_string(it.depth_of(found.more)),
          counted(found.parameters),
          fixed(each, 1),
          bytes(found.plan.activation_bytes()),
          bytes(found.plan.largest_device()),
          word_for(schedules, found.with.schedule),
          word_for(recomputes, found.with.recompute),
          recomputed_in_words(found.plan),
          word_for(packed_choices, found.with.packed),
          shortage_in_words(found.next, memory)};
}

inline void print_largest(const largest_settings& chosen, const network& own) {
  const family all = family_of(chosen.model, own);
  const plan_options o = chosen.plan(all.micro_batches);
  const std::vector<configuration> tried = chosen.configurations();
  std::cout << "The largest " << all.title << ",\non " << devices_in_words(chosen) << ": "
            << several(o.micro_batches, "micro-batch") << " of " << several(o.micro_batch_size, "sample") << ", "
            << several(o.optimizer_moments, "moment") << " a parameter; the best of "
            << several(static_cast<int>(tried.size()), "configuration") << ".\n"
            << shard_in_words(chosen, o.micro_batches) << '\n';
  table rows{{"width", all.depth, "parameters", "bytes each", "activations", "largest device", "--schedule",
              "--recompute", "recomputed", "--packed-weights", "out first"}};
  constexpr int max_layers = 50'000;
  for (const family_member& it : all.members)
    rows.push_back(
        largest_row(it, largest_search(it, o, chosen.memory).find(tried, it.max_more(max_layers)), chosen.memory));
  std::cout
      << gpipe::detail::table(rows)
      << "\nThe columns that begin with -- have the words that choose this row's configuration alone. \"bytes each\"\n"
         "are those of a parameter: value, gradient, moments, packed copies. \"out first\" is the device that\n"
         "lacks most memory for the next larger model.\n";
}

/// The paper's table 1, its half of images, planned with the cut whose largest device is smallest.
inline void print_amoebanets() {
  std::cout << "The paper's AmoebaNet-D (table 1): images of 224 x 224, a batch of 128 in micro-batches of one, all\n"
               "recomputed, fill-drain; 12 bytes a parameter; in GB. \"paper\" is the paper's peak of activations,\n"
               "\"torchgpipe\" what it measured with 128 micro-batches; \"max\" is the largest L that fits 8 GB a "
               "device.\n\n";
  table rows{{"L", "D", "stages", "parameters", "their bytes", "activations", "paper", "torchgpipe", "largest device",
              "fits 8", "max"}};
  const auto giga = [](double count) { return fixed(count * 1e-9, 2); };
  struct paper_row {
    int L, D, stages;
    double paper, torchgpipe;  // GB, GiB; 0: it does not fit
  };
  const family all = family_of(family_kind::amoebanet, network{});
  for (const paper_row& it :
       {paper_row{18, 208, 1, 6.26, 0}, paper_row{18, 416, 1, 3.46, 0.91}, paper_row{18, 544, 2, 8.11, 3.39},
        paper_row{36, 544, 4, 15.21, 6.91}, paper_row{72, 512, 8, 26.24, 10.83}}) {
    const family_member* of = nullptr;
    for (const family_member& m : all.members)
      if (m.width == "D = " + std::to_string(it.D)) of = &m;
    const stretched made(*of->net, of->parts, (it.L - of->depth) / of->step);
    const network net = made.net();
    const plan_options o{.stages = it.stages,
                         .micro_batches = all.micro_batches,
                         .micro_batch_size = 1,
                         .recompute = recompute_mode::always,
                         .optimizer_moments = 1,
                         .device = tpu_v2_core};
    const step_plan p = smallest_devices(net, o);
    const auto n = static_cast<double>(net.parameters());
    const std::int64_t max = largest_device_of(p);
    const largest_model found = largest_of(*of, o, tpu_v2_core.memory_bytes, 1000);
    rows.push_back({std::to_string(it.L), std::to_string(it.D), std::to_string(it.stages), counted(net.parameters()),
                    giga(12 * n), giga(static_cast<double>(activations_of(p))), fixed(it.paper, 2),
                    it.torchgpipe > 0 ? giga(it.torchgpipe * 1024 * 1024 * 1024) : "-", giga(static_cast<double>(max)),
                    max <= tpu_v2_core.memory_bytes ? "yes" : "no",
                    found.more < 0 ? "-" : std::to_string(of->depth_of(found.more))});
  }
  std::cout << gpipe::detail::table(rows);
}

}  // namespace example
