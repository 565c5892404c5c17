#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <gpipe/core/error.hpp>
#include <gpipe/plan/make_plan.hpp>
#include <gpipe/plan/options/plan_options.hpp>
#include <gpipe/plan/schedule/any_schedule.hpp>
#include <gpipe/record/digest.hpp>
#include <gpipe/record/stage_report.hpp>

#include "support/models.hpp"
#include "support/training_bits.hpp"

// Law: plans, and what else must not change a bit, leave a training its bits.

namespace laws {

inline plan_options scheduled(const schedule_choice& choice, plan_options plan) {
  plan.schedule = choice.kind;
  plan.chunks = choice.chunks;
  plan.warmup = choice.warmup;
  plan.workers = choice.onto;
  plan.custom_schedule = choice.custom;
  return plan;
}

/// Whether some gradients leave the memory of their stage, so that no call adds to those of another.
inline bool gradients_leave(const basic_trainer& training) {
  bool leave = false;
  for (int s = 0; s < training.plan().stages(); ++s) leave = leave || training.plan().requirements(s).gradients_leave;
  return leave;
}

/// The largest stage of a plan, in bytes.
inline std::int64_t largest_stage(const network& net, const plan_options& options) {
  std::int64_t largest = 0;
  for (const stage_plan& s : make_plan(net, options).stage_plans) largest = (std::max)(largest, s.memory.total());
  return largest;
}

inline constexpr recompute_mode kept_modes[] = {recompute_mode::always, recompute_mode::except_last,
                                                recompute_mode::never};

/// What must not change a bit: a plan, without the numbers that are part of a step's sums, and some options.
struct variation {
  plan_options plan{};
  std::vector<int> cut{};
  bool canary = true;
  std::size_t trace_events = 0;
  std::byte fill{0xff};  ///< all bits set are NaN: a read of unwritten memory shows
};

/// Trainings that must have the same bits: of one model, with the same calls and the same numbers of micro-batches,
/// samples and replicas.
struct same_bits {
  const test_model& model;
  std::vector<int> sizes{13, 4, 1};  ///< of the steps' batches. 13 samples are 3 + 3 + 3 + 3 + 1
  int micro_batches = 5, micro_batch_size = 4, replicas = 1;
  rule optimizer = rule::adam;
  double rate = 0.05;
  training_options how{.seed = 11, .max_grad_norm = 0.1};
  std::size_t digest_calls = 0;  ///< calls whose digests are compared
  bool accumulates = false;      ///< a call before another step
  bool freezes = false;          ///< a step with a frozen layer
  bool predicts = false;         ///< a dataset of several batches

  /// The bits of every result, gradient, parameter, moment and state.
  training_bits run(const variation& with, gpipe::digest* hashes = nullptr) const {
    training_options options = how;
    if (!with.cut.empty()) options.cut = with.cut;
    options.canary = with.canary;
    options.trace_events = with.trace_events;
    options.arena_fill = with.fill;
    options.digest_calls = digest_calls;
    plan_options plan = with.plan;
    plan.micro_batches = micro_batches;
    plan.micro_batch_size = micro_batch_size;
    plan.replicas = replicas;
    const std::shared_ptr<basic_trainer> training = model.trainer(plan, options, optimizer, rate);
    training_bits found;
    const auto look = [&] {
      append(found, *training);
      CHECK(replicas_agree(*training));
    };
    int first = 0;
    for (const int size : sizes) {
      append(found, training->step(model.take(first, size)));
      look();
      first += size;
    }
    if (accumulates) {
      append(found, training->accumulate(model.take(0, 9)));
      found.push_back(gradients_of(*training));
      append(found, training->step(model.take(9, 9)));
    } else if (gradients_leave(*training)) {
      CHECK_THROWS_AS((void)training->accumulate(model.take(0, 9)), error);
    }
    const batch few = model.take(0, (std::min)(9, micro_batches * micro_batch_size));
    append(found, training->evaluate(few));
    if (how.average_weights > 0) {
      const auto state = state_of(*training);
      append(found, training->evaluate(few, weights::averaged));
      CHECK(state_of(*training) == state);  // the weights are back
      look();
    }
    if (freezes) {
      training->freeze(0);
      append(found, training->step(model.take(3, 9)));
      append(found, training->evaluate(few));
      look();
    }
    if (predicts) append(found, training->predict(model.inputs(19)));
    found.push_back(training->parameter_hash());
    if (hashes != nullptr) *hashes = training->digest();
    for (const stage_report& r : training->report())  // the wait for a sum is no work of a backward
      CHECK((r.busy(action_kind::backward) >= 0 && r.busy(action_kind::backward_parameters) >= 0));
    return found;
  }

  /// The bits of `with` are those of one stage that keeps nothing for backward, in zeroed memory.
  void holds(const variation& with) {
    if (expected.empty())
      expected = run({.plan = {.recompute = recompute_mode::always}, .fill = std::byte{0}}, &expected_hashes);
    const plan_options& plan = with.plan;
    gpipe::digest hashes;
    const bool same = run(with, &hashes) == expected;
    CAPTURE(plan.stages);
    CAPTURE(std::string(plan.chosen_schedule().name()));
    CAPTURE(plan.workers);
    CAPTURE(std::string(name_of(plan.recompute)));
    CAPTURE(std::string(name_of(plan.shard)));
    CAPTURE(plan.group_gradients);
    CAPTURE(plan.memory_limit);
    CAPTURE(plan.share_packed_weights);
    CAPTURE(micro_batches);
    CAPTURE(replicas);
    CAPTURE(rule_names[static_cast<int>(optimizer)]);
    CAPTURE(with.cut);
    CAPTURE(with.canary);
    CHECK(same);
    CHECK_FALSE(first_difference(expected_hashes, hashes));
    CHECK(hashes.calls() == digest_calls);
  }

  training_bits expected{};
  gpipe::digest expected_hashes{};
};

}  // namespace laws
