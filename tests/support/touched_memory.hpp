#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <string>
#include <vector>

#include <gpipe/make_plan.hpp>
#include <gpipe/train/trainer.hpp>

#include "support/sanitized.hpp"

// Compares the memory that a training touches with what its plan predicts.

namespace laws {

using namespace gpipe;

/// The lines (of `alignment` bytes) of each stage's arena, and of the bytes behind it, that a training has changed, in
/// any replica.
template <class Net, class Optimizer = adam, class Data>
std::vector<std::vector<bool>> touched(const plan_options& options, const Data& data, std::byte fill) {
  training_options how;
  how.arena_fill = fill;
  if (options.average_weights) how.average_weights = 0.9;
  trainer<Net, Optimizer> training(options, Optimizer{}, how);
  const batch all = data.take(0, options.all_micro_batches() * options.micro_batch_size);
  for (int i = 0; i < 2; ++i) training.step(all);
  training.evaluate(all);
  std::vector<std::vector<bool>> lines;
  for (int s = 0; s < options.stages; ++s) {
    const auto bytes = static_cast<std::size_t>(training.plan().memory(s).total());
    CHECK(bytes % gpipe::detail::alignment == 0);
    lines.emplace_back(bytes / gpipe::detail::alignment + 1);
    for (int r = 0; r < options.replicas; ++r) {
      const auto& arena = training.executor().stage(s, r).arena();
      CHECK(arena.size() == bytes);
      for (std::size_t i = 0; i < lines.back().size(); ++i)
        if (const std::byte* const line = arena.data() + i * gpipe::detail::alignment;
            !std::all_of(line, line + gpipe::detail::alignment, [=](std::byte b) { return b == fill; }))
          lines.back()[i] = true;
    }
  }
  return lines;
}

/// Bytes of unused slots: if several stages skip to one, each link gets as many slots as the largest of them uses.
inline std::size_t spare_slots(const network& net, const step_plan& plan, int s) {
  const stage_view stage(net, plan.cut(), s);
  std::size_t bytes = 0;
  const auto taken = [&](int from, int to, bool back) {
    for (std::size_t k = 0; k < plan.links.size(); ++k)
      if (plan.links[k].source == from && plan.links[k].target == to) {
        const gpipe::detail::link_slots& its = plan.slots_of_links[k];
        const std::vector<int>& memory_slots = back ? its.returned : its.stash;
        return *std::max_element(memory_slots.begin(), memory_slots.end()) + 1;
      }
    return 0;
  };
  for (const gpipe::detail::memory_block& b : plan.blocks[static_cast<std::size_t>(s)]) {
    if (b.value < 0 || (b.kind != memory_kind::stash && b.kind != memory_kind::returned)) continue;
    const int writer = plan.cut().stage_of(net.values[b.value].writer);
    if (b.kind == memory_kind::stash && writer < 0) continue;
    const int count =
        b.kind == memory_kind::stash ? taken(writer, s, false) : taken(s, stage.return_stage(b.value, b.index), true);
    bytes += b.bytes * static_cast<std::size_t>(b.copies - count);
  }
  return bytes;
}

inline constexpr recompute_mode touching_modes[] = {recompute_mode::always, recompute_mode::except_last,
                                                    recompute_mode::never, recompute_mode::as_needed};

/// Each stage touches what the plan predicts.
template <class Net, class Optimizer, class Data>
void touches_as_predicted(const plan_options& options, const Data& data) {
  // A byte may equal the fill by chance, but not in both runs.
  const auto one = touched<Net, Optimizer>(options, data, std::byte{0xa5});
  const auto other = touched<Net, Optimizer>(options, data, std::byte{0x5a});
  for (std::size_t s = 0; s < one.size(); ++s) {
    std::size_t untouched = 0;
    for (std::size_t i = 0; i + 1 < one[s].size(); ++i) untouched += !one[s][i] && !other[s][i];
    CAPTURE(std::string(name_of(options.schedule)));
    CAPTURE(options.stages);
    CAPTURE(static_cast<int>(options.recompute));
    CAPTURE(options.micro_batches);
    CAPTURE(s);
    const std::size_t last = one[s].size() - 1;
    CHECK((one[s][last - 1] || other[s][last - 1]));  // the highest predicted line
    CHECK(!(one[s][last] || other[s][last]));         // the first line behind it
    const step_plan plan = make_plan(network_of<Net>, options);
    const stage_memory& memory = plan.memory(static_cast<int>(s));
    CHECK(untouched * gpipe::detail::alignment <= static_cast<std::size_t>(memory.total() - memory.lower_bound) +
                                                      spare_slots(network_of<Net>, plan, static_cast<int>(s)));
  }
}

/// The same at each recompute mode and three numbers of micro-batches.
template <class Net, class Optimizer = adam, class Data>
void touches_what_is_predicted(const Data& data, schedule_kind schedule = schedule_kind::fill_drain,
                               int group_gradients = 0,
                               std::initializer_list<int> stages = {1, 2, 3, 4, 5, layers_of<Net>},
                               bool share_packed_weights = false, int replicas = 1, shard shares = shard::none) {
  int turn = 0;
  for (const int S : stages)
    for (const recompute_mode mode : touching_modes)
      for (const int M : {1, 2, 3}) {
        const plan_options options{.stages = S,
                                   .micro_batches = M,
                                   .micro_batch_size = 3,
                                   .recompute = mode,
                                   .schedule = schedule,
                                   .replicas = replicas,
                                   .shard = shares,
                                   .group_gradients = group_gradients,
                                   .optimizer_moments = Optimizer::moments,
                                   .tensor_rule = gpipe::detail::tensor_memory<Optimizer>(),
                                   .average_weights = gpipe::tensor_rule<Optimizer>,
                                   .share_packed_weights = share_packed_weights};
        if (group_gradients > 1 && !options.may_group_gradients()) continue;
        if (!options.chosen_schedule().admits(S, M)) continue;
        if (sanitized && mode != touching_modes[(S + M) % 4]) continue;
        if (left_out(turn++)) continue;
        touches_as_predicted<Net, Optimizer>(options, data);
      }
}

}  // namespace laws
