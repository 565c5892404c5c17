#pragma once

#include <cstdint>

namespace gpipe {

/// What a worker can be told to do.
enum class act : std::uint8_t {
  idle,
  forward,
  recompute,            ///< forward once more, from the stashed input, for what backward needs
  backward,             ///< both parts in one
  backward_input,       ///< the gradient of the stage's input: what the stage before waits for
  backward_parameters,  ///< the gradients of its parameters: nobody waits
  receive_activation,
  send_activation,
  receive_gradient,
  send_gradient,
  reduce,  ///< gradients of all micro-batches are there: sum and norm
  update,  ///< commit the step
};

/// What one worker computes in one tick of a schedule; all -1 when idle.
struct cell {
  act kind = act::idle;
  int stage = -1;
  int micro_batch = -1;

  constexpr bool operator==(const cell&) const = default;
};

/// One line of a worker's program. What does not apply is -1: only sends and receives have a link, and `reduce` and
/// `update` have no micro-batch.
struct instruction {
  act kind = act::idle;
  int stage = -1;
  int micro_batch = -1;
  int link = -1;

  constexpr bool operator==(const instruction&) const = default;
};

/// Whether something leaves the worker, or arrives, by a link.
constexpr bool is_send(act kind) { return kind == act::send_activation || kind == act::send_gradient; }
constexpr bool is_receive(act kind) { return kind == act::receive_activation || kind == act::receive_gradient; }

/// The action in words, for errors and traces.
constexpr const char* name(act kind) {
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
