#pragma once

#include <cstdint>

#include <gpipe/core/descriptions/tensor_rule.hpp>
#include <gpipe/plan/memory/memory_kind.hpp>

namespace gpipe {

/// When a layer packs its weights, and how many packed copies it keeps. Forward reads one, backward another.
///
///                  memory                          packs a layer
///     kept         both copies                     both, after each update
///     in_turn      the larger copy                 the one that it reads next, unless it is there
///     on_the_way   one copy of the stage's largest the one that it reads, before each kernel
///                  layer that packs so
enum class packed_weights : std::uint8_t { kept, in_turn, on_the_way };

constexpr const char* name_of(packed_weights choice) {
  constexpr const char* names[] = {"kept", "in turn", "on the way"};
  return names[static_cast<int>(choice)];
}

namespace detail {

/// Slots for values from the neighbouring stage, and for values from any other stage.
struct slots_for {
  int next = 1;
  int skip = 1;

  /// Slots for values from the stage that is `distance` stages away.
  constexpr int from(int distance) const { return distance == 1 ? next : skip; }
  constexpr bool operator==(const slots_for&) const = default;
};

/// Slots for values sent to workers that share no memory with this one: activations to the next stage, gradients to the
/// stage before, and either to any other. 0: none is sent; if `skip` is 0, all workers share memory.
struct outgoing_slots {
  int next = 0, back = 0, skip = 0;

  constexpr bool operator==(const outgoing_slots&) const = default;
};

}  // namespace detail

/// The numbers on which the memory of a stage depends, besides the cut.
struct memory_requirements {
  int micro_batches = 1;  ///< of all replicas: a stage holds the partials of each
  int micro_batch_size = 1;
  int in_flight = 1;             ///< micro-batches after forward whose parameter gradients are not done
  int kept_copies = 1;           ///< micro-batches with kept activations: 1 with recompute, else all in flight
  int moments = 0;               ///< arrays of the parameters' size that the optimizer needs
  bool split = false;            ///< backward is split in every stage; else in stages that send gradients
  int held = 0;                  ///< micro-batches between backward's two parts; 0: one part follows the other
  detail::slots_for stash{};     ///< for activations of earlier stages
  detail::slots_for returned{};  ///< for gradients of later stages
  detail::outgoing_slots outgoing{};
  bool trains = true;                                       ///< else parameters have no gradients
  int remote_replicas = 0;                                  ///< replicas that share no memory with this one
  const detail::tensor_rule_memory* tensor_rule = nullptr;  ///< the arrays of an optimizer that sees whole tensors
  bool averages = false;                                    ///< a moving average of the parameters is kept
  int shares = 1;                                           ///< replicas that keep one part of this each; 1: all of it
  /// A layer's gradients go to the replica with its share when its backward is over, and leave this memory.
  bool gradients_leave = false;
  bool turns_once = false;  ///< all forwards come before the first backward, if no micro-batch is recomputed
  packed_weights packed = packed_weights::kept;
  int rows_on_the_way = 0;  ///< a layer that multiplies as many rows by a weight packs it on the way; 0: none does

  constexpr bool separate_memory() const { return outgoing.skip > 0; }
  constexpr bool operator==(const memory_requirements&) const = default;
};

class stage_view;

/// A stage of a plan: its layers, its requirements, and its bytes by kind. The steps that follow the cut pass
/// it on, so a stage's bytes are counted once for the same requirements.
struct stage_plan {
  int first = 0, last = 0;  ///< the layers [first, last)
  memory_requirements requirements{};
  stage_memory memory{};
  bool counted = false;  ///< `memory` was counted with `requirements`

  /// The bytes with these requirements, which the stage takes. To call it, include
  /// <gpipe/plan/memory/derive_requirements.hpp>.
  constexpr std::int64_t count(const stage_view& stage, const memory_requirements& needs);
};

}  // namespace gpipe
