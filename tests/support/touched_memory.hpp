#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include <gpipe/plan/make_plan.hpp>
#include <gpipe/runtime/executor.hpp>
#include <gpipe/train/basic_trainer.hpp>

#include "support/models.hpp"
#include "support/sanitized.hpp"

// Compares the memory that a training touches with what its plan predicts.

namespace laws {

using namespace gpipe;

/// Trainings of one network by one optimizer, and their data.
struct measured_trainings {
  std::function<std::shared_ptr<basic_trainer>(const plan_options&, const training_options&)> make;
  std::function<batch(int first, int count)> take;
  const network& net;
  bool averages = false;  ///< with a moving average of the weights

  /// The lines (of `alignment` bytes) of each stage's arena, and of the bytes after it, that a training has changed, in
  /// any replica; and its plan.
  std::vector<std::vector<bool>> touched(const plan_options& options, std::byte fill, step_plan* plan = nullptr) const {
    training_options how;
    how.arena_fill = fill;
    if (averages) how.average_weights = 0.9;
    const std::shared_ptr<basic_trainer> training = make(options, how);
    const batch all = take(0, options.all_micro_batches() * options.micro_batch_size);
    for (int i = 0; i < 2; ++i) training->step(all);
    training->evaluate(all);
    std::vector<std::vector<bool>> lines;
    for (int s = 0; s < options.stages; ++s) {
      const auto bytes = static_cast<std::size_t>(training->plan().memory(s).total());
      CHECK(bytes % gpipe::detail::alignment == 0);
      lines.emplace_back(bytes / gpipe::detail::alignment + 1);
      for (int r = 0; r < options.replicas; ++r) {
        const auto& arena = training->executor().stage(s, r).arena();
        CHECK(arena.size() == bytes);
        for (std::size_t i = 0; i < lines.back().size(); ++i)
          if (const std::byte* const line = arena.data() + i * gpipe::detail::alignment;
              !std::all_of(line, line + gpipe::detail::alignment, [=](std::byte b) { return b == fill; }))
            lines.back()[i] = true;
      }
    }
    if (plan != nullptr) *plan = make_plan(net, training->plan().options);
    return lines;
  }
};

// change: an optimizer; with a rule for a whole tensor
inline measured_trainings measured(const test_model& model, rule optimizer = rule::adam) {
  return {[&model, optimizer](const plan_options& plan, const training_options& how) {
            return model.trainer(plan, how, optimizer);
          },
          model.take, model.net, optimizer >= rule::adafactor};
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
inline void touches_as_predicted(const measured_trainings& trainings, const plan_options& options) {
  // A byte may equal the fill by chance, but not in both runs.
  step_plan plan;
  const auto one = trainings.touched(options, std::byte{0xa5});
  const auto other = trainings.touched(options, std::byte{0x5a}, &plan);
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
    const stage_memory& memory = plan.memory(static_cast<int>(s));
    CHECK(untouched * gpipe::detail::alignment <= static_cast<std::size_t>(memory.total() - memory.lower_bound) +
                                                      spare_slots(trainings.net, plan, static_cast<int>(s)));
  }
}

/// The same at each recompute mode and three numbers of micro-batches, over some numbers of stages if there are none
/// in `options`.
inline void touches_what_is_predicted(const measured_trainings& trainings, plan_options options = {},
                                      std::initializer_list<int> stages = {1, 2, 3, 4, 5, 0}) {
  int turn = 0;
  options.micro_batch_size = 3;
  for (const int count : stages)
    for (const recompute_mode mode : touching_modes)
      for (const int M : {1, 2, 3}) {
        const int S = count > 0 ? count : trainings.net.layer_count;
        options.stages = S, options.micro_batches = M, options.recompute = mode;
        if (options.group_gradients > 1 && !options.may_group_gradients()) continue;
        if (!options.chosen_schedule().admits(S, M)) continue;
        if (sanitized && mode != touching_modes[(S + M) % 4]) continue;
        if (left_out(turn++)) continue;
        touches_as_predicted(trainings, options);
      }
}

}  // namespace laws
