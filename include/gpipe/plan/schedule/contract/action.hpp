#pragma once

#include <cstdint>

namespace gpipe {

// change: an action
/// The actions of a worker.
enum class action_kind : std::uint8_t {
  idle,
  forward,
  recompute,            ///< forward again, from the stashed input, for the buffers that backward needs
  backward,             ///< both parts in one action
  backward_input,       ///< the gradient of the stage's input, for which the stage before waits
  backward_parameters,  ///< the gradients of its parameters, for which no stage waits
  receive_activation,
  send_activation,
  receive_gradient,
  send_gradient,
  reduce,  ///< when the gradients of all micro-batches are complete: sum and norm
  update,  ///< commit the step
};

/// The action of one worker in one tick of a schedule; stage and micro-batch are -1 when idle.
struct cell {
  action_kind kind = action_kind::idle;
  int stage = -1;
  int micro_batch = -1;

  constexpr bool operator==(const cell&) const = default;
};

/// One line of a worker's program. Members that do not apply are -1: only sends and receives have a link, and `reduce`
/// and `update` have no micro-batch.
struct instruction {
  action_kind kind = action_kind::idle;
  int stage = -1;
  int micro_batch = -1;
  int link = -1;

  constexpr bool operator==(const instruction&) const = default;
};

namespace detail {

/// One worker's program, as `lower` makes it.
struct program_view {
  const instruction* lines = nullptr;
  int length = 0;
};

/// Whether the action sends or receives by a link.
constexpr bool is_send(action_kind kind) {
  return kind == action_kind::send_activation || kind == action_kind::send_gradient;
}
constexpr bool is_receive(action_kind kind) {
  return kind == action_kind::receive_activation || kind == action_kind::receive_gradient;
}

}  // namespace detail

/// The name of the action in errors and traces.
constexpr const char* name_of(action_kind kind) {
  constexpr const char* names[] = {"idle",
                                   "forward",
                                   "recompute",
                                   "backward",
                                   "backward input",
                                   "backward parameters",
                                   "receive activation",
                                   "send activation",
                                   "receive gradient",
                                   "send gradient",
                                   "reduce",
                                   "update"};
  return names[static_cast<int>(kind)];
}

}  // namespace gpipe
