#pragma once

#include <cstdint>
#include <limits>

#include <gpipe/core/descriptions/plan_choices.hpp>
#include <gpipe/core/descriptions/tensor_rule.hpp>
#include <gpipe/core/included.hpp>
#include <gpipe/plan/cost/device_spec.hpp>
#include <gpipe/plan/cost/profile.hpp>
#include <gpipe/plan/schedule/contract/scheduler.hpp>

namespace gpipe {

namespace broken {

template <class Given, bool Holds>
struct plan_has_stages {
  static_assert(Holds, "gpipe: .num_stages of a plan is .stages here: plan_options{.stages = 4}");
};
template <class Given, bool Holds>
struct plan_has_micro_batches {
  static_assert(Holds,
                "gpipe: the numbers of a plan are .micro_batches and .micro_batch_size here: "
                "plan_options{.stages = 4, .micro_batches = 8, .micro_batch_size = 16}");
};
template <class Given, bool Holds>
struct plan_has_no_batch_size {
  static_assert(Holds,
                "gpipe: a plan has no .batch_size, which is replicas x .micro_batches x .micro_batch_size: "
                "plan_options{.stages = 4, .micro_batches = 8, .micro_batch_size = 16}");
};

}  // namespace broken

struct custom_schedule;
struct schedule_choice;

/// Any number of bytes is allowed.
inline constexpr std::int64_t no_memory_limit = (std::numeric_limits<std::int64_t>::max)();

// change: a plan option
/// The choices that make a plan of a network, at compile time or at run time. A new option is a member here, a line of
/// `plan_option_list` in options.hpp and a compile-time option below it.
struct plan_options {
  int stages = 1;                                          ///< S
  int micro_batches = 1;                                   ///< M
  int micro_batch_size = 32;                               ///< B, the maximum number of samples of a micro-batch
  gpipe::precision precision = gpipe::precision::float32;  ///< of the compiled network: see in_bf16 and both_precisions
  /// On a GPU, products of floats round their factors to TF32: 10 bits after the point, on tensor cores. float32 only.
  bool tf32 = false;
  recompute_mode recompute = recompute_mode::as_needed;  ///< without a memory limit: none
  /// Exactly these layers run forward again in every backward, and no whole micro-batch: `{"h.*.mlp", "layer_norm"}`.
  layer_patterns recompute_layers{};
  schedule_kind schedule = schedule_kind::fill_drain;
  /// Stages per worker, of the interleaved and looped schedules; for a searched one 1, or 2 as a V.
  int chunks = 2;
  /// The warm-up of the interleaved schedule. Automatic: the one with the shorter step that fits the memory limit, if
  /// transfers have a cost (see `choose_warmup`); else the shortest.
  warmup_kind warmup = warmup_kind::automatic;
  int workers = 0;  ///< the schedule's workers are folded onto these, neighbours together; 0: as many as it has
  bool separate_memory = false;  ///< workers share no memory: a sent value stays in the sender's memory until it left
  int replicas = 1;              ///< R, of the pipeline: each runs M micro-batches of every mini-batch
  gpipe::shard shard = gpipe::shard::none;  ///< the arrays that replicas keep in shares. One replica keeps all
  /// For `schedule_kind::custom`: `&custom_schedule_of<mine>`. In the options of a plan also the table that it has
  /// found.
  const gpipe::custom_schedule* custom_schedule = nullptr;
  /// Micro-batches whose parameter gradients a stage computes together, with fill-drain and without recompute:
  /// each gradient is then read and written once for all of them. The bits are the same. 0: as many as pay off and fit
  /// the memory limit (see `group_gradients`).
  int group_gradients = 0;
  int optimizer_moments = 2;  ///< arrays that the optimizer keeps besides the parameters: Adam 2, SGD with momentum 1
  const detail::tensor_rule_memory* tensor_rule = nullptr;  ///< set by `optimizer<type>` and by a trainer
  bool average_weights = false;                             ///< keeps a moving average of the parameters
  /// All layers of a stage share one buffer for arrays that they derive from their parameters, such as packed copies of
  /// weights. Each layer then makes it before each of its kernels, and not once per update. By default a layer does so
  /// if it has many rows, so that it takes as long. The bits are the same.
  bool share_packed_weights = false;
  /// Every layer keeps both packed copies. By default it keeps one if all forwards of its stage come before backward.
  bool keep_packed_weights = false;
  /// If false, no layer packs on the way unless all do. A training on GPUs, or of several lengths, sets it to false.
  bool packs_on_the_way = true;
  device_spec device = this_cpu;         ///< costs and transfers are predicted for it
  const device_spec* devices = nullptr;  ///< of each stage, if they differ
  int device_count = 0;                  ///< the length of `devices`: 0 or S
  gpipe::profile profile{};              ///< of the model, in place of the analytic costs; of one kind of device
  bool cost_transfers = false;           ///< the cut pays for the values that cross it, over the device's link
  bool cost_parameters = false;  ///< a micro-batch pays for the parameters that it reads, however few samples it has
  std::int64_t memory_limit = no_memory_limit;  ///< bytes of every stage; see `limit_of`
  [[no_unique_address]] detail::named_elsewhere<broken::plan_has_stages> num_stages{};
  [[no_unique_address]] detail::named_elsewhere<broken::plan_has_micro_batches> num_micro_batches{};
  [[no_unique_address]] detail::named_elsewhere<broken::plan_has_no_batch_size> batch_size{};

  /// The schedule with its parameters. Include <gpipe/plan/options/options.hpp> to call this and the next three.
  constexpr schedule_choice chosen_schedule() const;
  /// Workers of the schedule before it is folded; 0: it does not admit the numbers.
  constexpr int max_workers() const;
  /// The bytes that a stage may need: `memory_limit`, or fewer if its device has a limit. The stages of a worker get
  /// equal parts of the device's limit, so that together they obey it.
  constexpr std::int64_t limit_of(int stage) const;
  /// The number of stages of the stage's worker.
  constexpr int stages_beside(int stage) const;
  constexpr const device_spec& device_of(int stage) const { return device_count > 0 ? devices[stage] : device; }
  /// The processes of a replica that the devices of stages name; 0: they name none.
  constexpr int named_processes() const {
    int count = 0;
    for (int s = 0; s < device_count; ++s)
      if (devices[s].process >= count) count = devices[s].process + 1;
    return count;
  }
  /// Whether any stage has a limit.
  constexpr bool limits_memory() const {
    bool limits = memory_limit != no_memory_limit || (device_count == 0 && device.memory_limit != no_memory_limit);
    for (int s = 0; s < device_count; ++s) limits = limits || devices[s].memory_limit != no_memory_limit;
    return limits;
  }
  /// Micro-batches of a mini-batch, of all replicas.
  constexpr int all_micro_batches() const { return replicas * micro_batches; }
  /// Replicas that keep a share of a stage each; 1: all keep all.
  constexpr int shares() const { return shard == gpipe::shard::none ? 1 : replicas; }
  /// The whole micro-batches that run forward again: none if layers are listed.
  constexpr recompute_mode recompute_whole() const {
    return recompute_layers.empty() ? recompute : recompute_mode::never;
  }
  // change: a recompute mode
  /// Whether no whole micro-batch runs forward again, whatever the cut.
  constexpr bool keeps_all() const {
    const recompute_mode mode = recompute_whole();
    return mode == recompute_mode::never || (mode == recompute_mode::as_needed && !limits_memory());
  }
  /// Whether a stage certainly holds several micro-batches whose parameter gradients can be computed together.
  constexpr bool may_group_gradients() const { return schedule == schedule_kind::fill_drain && keeps_all(); }
};

}  // namespace gpipe
