#pragma once

// The paper's Transformers, table 1.

#include <algorithm>
#include <cstdint>
#include <iostream>
#include <string>
#include <vector>

#include <gpipe/core/text/table.hpp>
#include <gpipe/model/transformer.hpp>
#include <gpipe/plan.hpp>
#include <gpipe/plan/runtime_plan.hpp>

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

constexpr std::int64_t activations(const stage_memory& m) {
  return m.total() - m.of(memory_kind::parameters) - m.of(memory_kind::gradients) - m.of(memory_kind::moments);
}

inline std::int64_t largest_stage(const network& net, int stages) {
  std::int64_t max = 0;
  const runtime_plan p = make_plan(net, as_in_the_paper(stages));
  for (const stage_plan& s : p.stage_plans) max = std::max(max, s.memory.total());
  return max;
}

/// How many blocks fit devices of the paper's memory. Every further block of a stage needs the same bytes again.
inline int max_blocks(int stages) {
  const auto count = [](std::int64_t one, std::int64_t two) {
    return one > paper_limit ? 0 : 1 + static_cast<int>((paper_limit - one) / (two - one));
  };
  if (stages == 1)
    return count(largest_stage(network_of<transformer<1>>, 1), largest_stage(network_of<transformer<2>>, 1));
  const network& net = network_of<transformer<8>>;
  const int L = net.slot_count, block = 6;
  const auto needs = [&](int first, int last) {
    const int ends[] = {0, first, last, L};
    const int skip = first == 0, stages_here = 3 - skip - (last == L);
    const memory_requirements paper{.micro_batches = 32,
                             .micro_batch_size = 1,
                             .in_flight = 32,
                             .moments = 1,
                             .stash = {32, 32},
                             .returned = {2, 2}};
    return memory_of(stage_view(net, {ends + skip, stages_here}, 1 - skip), paper).total();
  };
  const int head = count(needs(0, 1 + block), needs(0, 1 + 2 * block));
  const int middle = count(needs(1, 1 + block), needs(1, 1 + 2 * block));
  const int tail = count(needs(L - 1 - block, L), needs(L - 1 - 2 * block, L));
  return head + (stages - 2) * middle + tail;
}

template <int Blocks>
void add_transformer(table& rows, int stages, double paper_activations) {
  const network& net = network_of<transformer<Blocks>>;
  const runtime_plan p = make_plan(net, as_in_the_paper(stages));
  std::int64_t max = 0, kept = 0;
  for (const stage_plan& s : p.stage_plans) {
    const stage_memory& m = s.memory;
    max = std::max(max, m.total());
    kept += activations(m);
  }
  const auto giga = [](std::int64_t count) { return fixed(static_cast<double>(count) * 1e-9, 1); };
  rows.push_back({std::to_string(Blocks), std::to_string(stages), counted(net.parameters()),
                  giga(static_cast<std::int64_t>(net.parameters()) * 12), giga(kept), fixed(paper_activations, 1),
                  giga(max), max <= paper_limit ? "yes" : "no", percent(timetable(fill_drain{}, stages, 32).bubble()),
                  std::to_string(max_blocks(stages))});
}

inline void print_transformers() {
  std::cout << "The paper's Transformers (table 1): d 2048, 1024 tokens, a batch of 32 in micro-batches of one, all\n"
               "recomputed, fill-drain; 12 bytes a parameter; in GB. \"paper\" is the paper's peak of activations;\n"
               "\"max\" is how many blocks fit 16 GB a device.\n\n";
  table rows{{"blocks", "stages", "parameters", "their bytes", "activations", "paper", "largest stage", "fits 16",
              "bubble", "max"}};
  add_transformer<3>(rows, 1, 11.7);
  add_transformer<13>(rows, 1, 6.4);
  add_transformer<103>(rows, 8, 50.9);
  add_transformer<415>(rows, 32, 199.9);
  add_transformer<1663>(rows, 128, 796.1);
  std::cout << gpipe::detail::table(rows);
}

}  // namespace example
