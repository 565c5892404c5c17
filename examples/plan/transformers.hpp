#pragma once

// The paper's Transformers, table 1.

#include <algorithm>
#include <cstdint>
#include <iostream>
#include <string>
#include <vector>

#include <gpipe/core/text/quantity.hpp>
#include <gpipe/make_plan.hpp>
#include <gpipe/model/transformer.hpp>
#include <gpipe/plan.hpp>

#include "largest.hpp"
#include "text.hpp"

namespace example {

using namespace gpipe;

// A mini-batch of 32, here in micro-batches of one sample; a parameter has a value, a gradient and one moment.
constexpr plan_options as_in_the_paper(int stages) {
  return {.stages = stages,
          .micro_batches = 32,
          .micro_batch_size = 1,
          .recompute = recompute_mode::always,
          .optimizer_moments = 1,
          .device = tpu_v3_core};
}
inline constexpr std::int64_t paper_limit = tpu_v3_core.memory_bytes;

/// A Transformer of table 1, and the peak of its activations in GB.
struct printed_transformer {
  int blocks, stages;
  double activations;
};
inline constexpr printed_transformer printed_transformers[] = {
    {3, 1, 11.7}, {13, 1, 6.4}, {103, 8, 50.9}, {415, 32, 199.9}, {1663, 128, 796.1}};

inline void add_transformer(table& rows, const family_member& family, int blocks, int stages,
                            double paper_activations) {
  const stretched made(*family.net, family.parts, blocks - family.depth);
  const network net = made.net();
  const plan_options o = as_in_the_paper(stages);
  const step_plan p = smallest_devices(net, o);
  const std::int64_t max = largest_device_of(p);
  std::int64_t packed = 0;
  for (const stage_plan& s : p.stage_plans) packed += s.memory.of(memory_kind::derived);
  const auto giga = [](std::int64_t count) { return fixed(static_cast<double>(count) * 1e-9, 1); };
  rows.push_back({std::to_string(blocks), std::to_string(stages), counted(net.parameters()),
                  giga(static_cast<std::int64_t>(net.parameters()) * 12), giga(packed), giga(activations_of(p)),
                  fixed(paper_activations, 1), giga(max), max <= paper_limit ? "yes" : "no",
                  percent(timetable(fill_drain{}, stages, 32).bubble()),
                  std::to_string(family.depth_of(largest_of(family, o, paper_limit, 2000).more))});
}

inline void print_transformers() {
  std::cout
      << "The paper's Transformers (table 1): d 2048, 1024 tokens, a batch of 32 in micro-batches of one, all\n"
         "recomputed, fill-drain; 12 bytes a parameter; in GB. \"paper\" is the paper's peak of activations;\n"
         "the cut is that whose largest device is smallest, and \"max\" is how many blocks fit 16 GB a device.\n\n";
  table rows{{"blocks", "stages", "parameters", "their bytes", "packed", "activations", "paper", "largest device",
              "fits 16", "bubble", "max"}};
  const family_member blocks{"", &network_of<transformer<3>>, repetitions_of(network_of<transformer<3>>), 3, 1};
  for (const printed_transformer& t : printed_transformers)
    add_transformer(rows, blocks, t.blocks, t.stages, t.activations);
  std::cout << gpipe::detail::table(rows);
}

}  // namespace example
