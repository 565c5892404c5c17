#pragma once

#include <gpipe/core/config.hpp>
#include <gpipe/core/zeroed_array.hpp>
#include <gpipe/plan/program/slot_channels.hpp>
#include <gpipe/plan/schedule/contract/action.hpp>
#include <gpipe/plan/stages/cut.hpp>
#include <gpipe/plan/timetable/check.hpp>

#include <initializer_list>

namespace gpipe::detail {

/// The contents of a valid step. Arrays have one element per stage unless noted; the caller owns them.
struct expected_step {
  int stages = 1, micro_batches = 1;
  const stage_link* links = nullptr;
  int link_count = 0;
  bool trains = true;
  const bool* recomputed = nullptr;  ///< [stage][micro-batch]; null: none is
  const int* in_flight = nullptr;    ///< the bound of the stash; null: not checked
  const int* worker_of = nullptr;    ///< null: stage s is worker s
  /// The plan's slots: a stage acquires the slot of an output before it computes it, and releases the slot of an input
  /// after the last use. Without this table a channel has a number of slots, first in, first out.
  link_slot_table memory_slots{};
  bool ties = false;  ///< with `memory_slots`: workers wait for each other before their first `reduce`, too
};

/// A send completes only when its receive is reached.
inline constexpr int rendezvous = 0;

/// Runs all programs together, once. Every channel has one sender and one receiver that block, so the final state does
/// not depend on the order in which workers run: one run represents all.
class program_run {
 public:
  GPIPE_COLD constexpr program_run(const expected_step& expected, const program_view* programs, int workers,
                                   int channel_slots)
      : expected_(expected),
        programs_(programs),
        workers_(workers),
        channel_slots_(channel_slots),
        planned_(expected.memory_slots.stash != nullptr),
        channels_(expected.memory_slots, expected.link_count, expected.micro_batches),
        memory_(memory_size(expected, workers)) {
    int* next = memory_.data();
    const int cells = expected_.stages * expected_.micro_batches, channels = 2 * expected_.link_count;
    const auto allocate = [&next](int*& array, int length) {
      array = next;
      next += length;
    };
    allocate(position_, workers);
    allocate(waiting_, workers);
    allocate(ready_, workers);
    allocate(arrived_at_barrier_, workers);
    for (int** array : {&incoming_, &outgoing_gradients_, &forwarded_, &retired_, &held_, &ended_})
      allocate(*array, expected_.stages);
    allocate(first_out_, expected_.stages + 1);
    allocate(first_in_, expected_.stages + 1);
    allocate(link_in_, expected_.link_count);
    for (int** array : {&state_, &activations_, &gradients_}) allocate(*array, cells);
    allocate(sent_, channels);
    allocate(received_, channels);
    allocate(order_, channels * expected_.micro_batches);
    allocate(departed_, expected_.link_count * expected_.micro_batches);
    for (int i = 0; i < expected_.link_count; ++i) {
      ++incoming_[expected_.links[i].target];
      if (expected_.links[i].gradient) ++outgoing_gradients_[expected_.links[i].source];
      ++first_out_[expected_.links[i].source + 1];
    }
    for (int s = 0; s < expected_.stages; ++s) {
      first_out_[s + 1] += first_out_[s];
      first_in_[s + 1] = first_in_[s] + incoming_[s];
    }
    for (int i = expected_.link_count - 1; i >= 0; --i) {  // descending: `incoming_` counts down to a link's place
      const int target = expected_.links[i].target;
      link_in_[first_in_[target] + --incoming_[target]] = i;
    }
    for (int s = 0; s < expected_.stages; ++s) incoming_[s] = first_in_[s + 1] - first_in_[s];
  }

  /// After a deadlock: calls `sink(worker, action)` for each worker of a cycle in which each waits for the next.
  template <class Sink>
  GPIPE_COLD constexpr void report_cycle(Sink&& sink) const {
    int worker = 0;
    while (!waiting_[worker]) ++worker;
    for (int i = 0; i < workers_; ++i) worker = worker_waited_for(worker);
    int first = worker;  // after `workers_` hops, `worker` is on the cycle
    for (int next = worker_waited_for(worker); next != worker; next = worker_waited_for(next))
      if (next < first) first = next;
    worker = first;
    do {
      sink(worker, current_action(worker));
      worker = worker_waited_for(worker);
    } while (worker != first);
  }

  GPIPE_COLD constexpr check_result run() {
    for (int w = workers_ - 1; w >= 0; --w) ready_[ready_count_++] = w;
    while (ready_count_ > 0) {
      const int worker = ready_[--ready_count_];
      while (position_[worker] < programs_[worker].length) {
        const fault error = execute(worker, programs_[worker].lines[position_[worker]]);
        if (error != fault::none) return failure(error, blamed_ < 0 ? worker : blamed_);
        if (waiting_[worker]) break;
      }
    }
    for (int w = 0; w < workers_; ++w)
      if (waiting_[w]) return deadlock();
    return first_missing_action();
  }

 private:
  enum mark : int {
    forward_done = 1,
    recompute_done = 2,
    input_done = 4,
    parameters_done = 8,
    stashed = 16,
    activation_left = 1,
    gradient_left = 2,
    reduced = 1,
    updated = 2,
  };

  constexpr int worker_of(int stage) const { return expected_.worker_of ? expected_.worker_of[stage] : stage; }
  constexpr bool is_local(const stage_link& link) const { return worker_of(link.source) == worker_of(link.target); }
  constexpr bool recomputed(int s, int m) const {
    return expected_.recomputed && expected_.recomputed[s * expected_.micro_batches + m];
  }
  constexpr const instruction& current_action(int worker) const { return programs_[worker].lines[position_[worker]]; }
  constexpr check_result failure(fault error, int worker) const {
    return {error, worker, position_[worker], current_action(worker)};
  }
  constexpr check_result missing_action(const instruction& action) const {
    const int worker = worker_of(action.stage);
    return {fault::missing, worker, programs_[worker].length, action};
  }

  /// Runs the worker's next action if possible, else leaves the worker waiting.
  constexpr fault execute(int worker, const instruction& action) {
    const int s = action.stage, m = action.micro_batch;
    if (s < 0 || s >= expected_.stages || worker_of(s) != worker) return fault::unknown;
    if (action.kind == action_kind::reduce || action.kind == action_kind::update)
      return reduce_or_update(worker, action);
    if (m < 0 || m >= expected_.micro_batches) return fault::unknown;
    if (action.kind >= action_kind::receive_activation)
      return planned_ ? transfer_in_slot(worker, action) : transfer_in_order(worker, action);
    if (planned_)
      if (const fault error = acquire_slots(worker, action); error != fault::none || waiting_[worker]) return error;
    ++position_[worker];
    const fault error = compute(action, s, m, s * expected_.micro_batches + m);
    if (error != fault::none) --position_[worker];
    return error;
  }

  // change: an action
  /// Runs an action of stage s for micro-batch m; `index` is the position of (s, m) in `state_`.
  GPIPE_COLD constexpr fault compute(const instruction& action, int s, int m, int index) {
    int& state = state_[index];
    if (action.kind == action_kind::forward) {
      if (state & forward_done) return fault::repeated;
      if (activations_[index] != incoming_[s]) return fault::premature;
      ++forwarded_[s];
      const fault error = add_to_stash(s, index);
      state |= forward_done;
      if (!expected_.trains) --held_[s];
      deliver_locally(s, m, false);
      if (planned_ && !expected_.trains && !release_slots(s, m)) return fault::unpaired;
      return error;
    }
    if (!expected_.trains) return fault::unknown;
    if (action.kind == action_kind::backward_parameters) {
      if (state & parameters_done) return fault::repeated;
      if (!(state & input_done)) return fault::premature;
      return retire(s, m, index);
    }
    if (!(state & forward_done)) return fault::premature;
    if (action.kind == action_kind::recompute) {
      if ((state & recompute_done) || !recomputed(s, m)) return fault::repeated;
      if (state & input_done) return fault::premature;
      state |= recompute_done;
      return fault::none;
    }
    if (action.kind != action_kind::backward && action.kind != action_kind::backward_input) return fault::unknown;
    if (state & input_done) return fault::repeated;
    if (gradients_[index] != outgoing_gradients_[s]) return fault::premature;
    if (!(state & recompute_done) && recomputed(s, m)) return fault::premature;
    state |= input_done;
    deliver_locally(s, m, true);
    return action.kind == action_kind::backward ? retire(s, m, index) : fault::none;
  }

  constexpr fault add_to_stash(int s, int index) {
    if (state_[index] & stashed) return fault::none;
    state_[index] |= stashed;
    ++held_[s];
    return expected_.in_flight && held_[s] > expected_.in_flight[s] ? fault::stash : fault::none;
  }

  /// The parameter gradients of stage s are complete for micro-batch m.
  constexpr fault retire(int s, int m, int index) {
    if (retired_[s] != m) return fault::retirement;
    ++retired_[s];
    --held_[s];
    state_[index] |= parameters_done;
    return planned_ && !release_slots(s, m) ? fault::unpaired : fault::none;
  }

  /// Calls `use(link, channel)` for each link over which a stage sends activations or, if `back`, gradients.
  template <class Use>
  constexpr void for_each_output(int s, bool back, Use&& use) const {
    const int *const first = back ? first_in_ : first_out_, end = first[s + 1];
    for (int k = first[s]; k < end; ++k) {
      const int i = back ? link_in_[k] : k;
      if (const stage_link& link = expected_.links[i]; !back || link.gradient) use(link, 2 * i + back);
    }
  }

  /// Gives the outputs of a stage to the other stages of its worker.
  constexpr void deliver_locally(int s, int m, bool back) {
    for_each_output(s, back, [&](const stage_link& link, int channel) {
      if (!is_local(link)) return;
      ++(back ? gradients_[link.source * expected_.micro_batches + m]
              : activations_[link.target * expected_.micro_batches + m]);
      if (!planned_) return;
      channels_.publish(channel, m);
      channels_.consume(channel, m);
    });
  }

  // Acquires the slots of the outputs of an action. Between stages of one worker nothing waits: a slot that is not
  // free would be overwritten.
  GPIPE_COLD constexpr fault acquire_slots(int worker, const instruction& action) {
    const bool back = action.kind == action_kind::backward || action.kind == action_kind::backward_input;
    if (!back && action.kind != action_kind::forward) return fault::none;
    fault error = fault::none;
    for_each_output(action.stage, back, [&](const stage_link& link, int channel) {
      if (error != fault::none || waiting_[worker]) return;
      if (!channels_.exists(channel, action.micro_batch)) error = fault::stash;
      else if (channels_.acquire(channel, action.micro_batch) == slot_channels::result::waits) {
        if (is_local(link)) error = fault::stash;
        else waiting_[worker] = true;
      }
    });
    return error;
  }

  // Releases the slots of everything that a stage received for a micro-batch; false: one was not in use.
  GPIPE_COLD constexpr bool release_slots(int s, int m) {
    bool valid = true;
    const auto release = [&](const stage_link& link, int channel, int sender) {
      valid = channels_.release(channel, m) == slot_channels::result::done && valid;
      if (!is_local(link) && waiting_[worker_of(sender)]) wake(worker_of(sender));
    };
    for (int k = first_in_[s]; k < first_in_[s + 1]; ++k)
      release(expected_.links[link_in_[k]], 2 * link_in_[k], expected_.links[link_in_[k]].source);
    for (int i = first_out_[s]; expected_.trains && i < first_out_[s + 1]; ++i)
      if (expected_.links[i].gradient) release(expected_.links[i], 2 * i + 1, expected_.links[i].target);
    return valid;
  }

  constexpr fault reduce_or_update(int worker, const instruction& action) {
    int& ended = ended_[action.stage];
    const mark end = action.kind == action_kind::reduce ? reduced : updated;
    if (!expected_.trains) return fault::unknown;
    if (ended & end) return fault::repeated;
    if (retired_[action.stage] != expected_.micro_batches || (end == updated && !(ended & reduced)))
      return fault::premature;
    if (planned_ && (expected_.ties || end == updated) && !pass_barrier(worker, end)) return fault::none;
    ended |= end;
    ++position_[worker];
    return fault::none;
  }

  // Whether all workers have arrived at their first action with this mark; else the worker waits.
  constexpr bool pass_barrier(int worker, mark end) {
    if (!(arrived_at_barrier_[worker] & end)) {
      arrived_at_barrier_[worker] |= end;
      if (++(end == reduced ? workers_at_reduce_ : workers_at_update_) == workers_)
        for (int w = 0; w < workers_; ++w)
          if (w != worker && waiting_[w]) wake(w);
    }
    waiting_[worker] = (end == reduced ? workers_at_reduce_ : workers_at_update_) < workers_;
    return !waiting_[worker];
  }

  static constexpr bool carries_gradient(action_kind kind) {
    return kind == action_kind::send_gradient || kind == action_kind::receive_gradient;
  }
  constexpr int channel_of(const instruction& transfer) const {
    return 2 * transfer.link + carries_gradient(transfer.kind);
  }
  /// The worker at the other end of a transfer.
  constexpr int peer_of(const instruction& transfer) const {
    const stage_link& link = expected_.links[transfer.link];
    return worker_of(transfer.stage == link.source ? link.target : link.source);
  }

  // The fault of a transfer that may not be made at this point of the program, whether or not its peer is ready.
  constexpr fault transfer_error(int worker, const instruction& transfer) const {
    if (transfer.link < 0 || transfer.link >= expected_.link_count) return fault::unknown;
    const stage_link& link = expected_.links[transfer.link];
    const bool back = carries_gradient(transfer.kind), sends = is_send(transfer.kind);
    if (transfer.stage != (sends == back ? link.target : link.source) || (back && !link.gradient) ||
        peer_of(transfer) == worker)
      return fault::unknown;
    const int state = state_[transfer.stage * expected_.micro_batches + transfer.micro_batch];
    if (sends) {
      if (departed_[transfer.link * expected_.micro_batches + transfer.micro_batch] &
          (back ? gradient_left : activation_left))
        return fault::repeated;
      if (!(state & (back ? input_done : forward_done))) return fault::premature;
    } else if (back && !(state & recompute_done) && recomputed(transfer.stage, transfer.micro_batch)) {
      return fault::premature;
    }
    return fault::none;
  }

  // A transfer through the plan's slots.
  GPIPE_COLD constexpr fault transfer_in_slot(int worker, const instruction& transfer) {
    if (const fault error = transfer_error(worker, transfer); error != fault::none) return error;
    const bool sends = is_send(transfer.kind);
    const auto outcome = sends ? channels_.publish(channel_of(transfer), transfer.micro_batch)
                               : channels_.consume(channel_of(transfer), transfer.micro_batch);
    if (outcome == slot_channels::result::wrong) return fault::unpaired;
    waiting_[worker] = outcome == slot_channels::result::waits;
    if (waiting_[worker]) return fault::none;
    const fault error = sends ? depart(transfer) : arrive(transfer, channel_of(transfer));
    if (error != fault::none) return error;
    ++position_[worker];
    if (sends && waiting_[peer_of(transfer)]) wake(peer_of(transfer));
    return fault::none;
  }

  GPIPE_COLD constexpr fault transfer_in_order(int worker, const instruction& action) {
    if (const fault error = transfer_error(worker, action); error != fault::none) return error;
    const int peer = peer_of(action), channel = channel_of(action);
    const bool sends = is_send(action.kind);
    if (channel_slots_ == rendezvous) {
      const instruction* peer_action = waiting_[peer] ? &current_action(peer) : nullptr;
      const bool meets =
          peer_action && peer_action->link == action.link && peer_action->kind == counterpart(action.kind);
      if (!meets) {
        waiting_[worker] = true;
        return fault::none;
      }
      if (peer_action->micro_batch != action.micro_batch) return fault::unpaired;
      enqueue(sends ? action : *peer_action, channel);
      const fault error = arrive(sends ? *peer_action : action, channel);
      if (error != fault::none) {
        blamed_ = sends ? peer : worker;
        return error;
      }
      ++position_[worker];
      ++position_[peer];
      wake(peer);
      return fault::none;
    }
    waiting_[worker] =
        sends ? sent_[channel] - received_[channel] >= channel_slots_ : sent_[channel] == received_[channel];
    if (waiting_[worker]) return fault::none;
    if (!sends && order_[channel * expected_.micro_batches + received_[channel]] != action.micro_batch)
      return fault::unpaired;
    const fault error = sends ? enqueue(action, channel) : arrive(action, channel);
    if (error != fault::none) return error;
    ++position_[worker];
    if (waiting_[peer]) wake(peer);
    return fault::none;
  }

  static constexpr action_kind counterpart(action_kind kind) {
    return kind == action_kind::send_activation      ? action_kind::receive_activation
           : kind == action_kind::receive_activation ? action_kind::send_activation
           : kind == action_kind::send_gradient      ? action_kind::receive_gradient
                                                     : action_kind::send_gradient;
  }

  constexpr fault enqueue(const instruction& send, int channel) {
    order_[channel * expected_.micro_batches + sent_[channel]] = send.micro_batch;
    ++sent_[channel];
    return depart(send);
  }
  constexpr fault depart(const instruction& send) {
    departed_[send.link * expected_.micro_batches + send.micro_batch] |=
        carries_gradient(send.kind) ? gradient_left : activation_left;
    return fault::none;
  }

  constexpr fault arrive(const instruction& receive, int channel) {
    const int index = receive.stage * expected_.micro_batches + receive.micro_batch;
    ++received_[channel];
    if (receive.kind == action_kind::receive_gradient) {
      ++gradients_[index];
      return fault::none;
    }
    ++activations_[index];
    return add_to_stash(receive.stage, index);
  }

  constexpr void wake(int worker) {
    waiting_[worker] = false;
    ready_[ready_count_++] = worker;
  }

  // No worker can run any more. A worker whose counterpart never comes is the cause; the others only wait for it.
  constexpr check_result deadlock() const {
    int first = -1;
    for (int w = 0; w < workers_; ++w) {
      if (!waiting_[w]) continue;
      if (first < 0) first = w;
      const instruction& action = current_action(w);
      if (!is_send(action.kind) && !is_receive(action.kind)) {
        if (!waiting_[worker_waited_for(w)]) return failure(fault::unpaired, w);
        continue;
      }
      const int peer = peer_of(action);
      bool comes = false;
      for (int i = position_[peer]; i < programs_[peer].length && !comes; ++i) {
        const instruction& candidate = programs_[peer].lines[i];
        comes = candidate.link == action.link && candidate.kind == counterpart(action.kind) &&
                candidate.micro_batch == action.micro_batch;
      }
      if (!comes) return failure(fault::unpaired, w);
    }
    return failure(fault::deadlock, first);
  }

  /// The worker that a waiting worker waits for.
  constexpr int worker_waited_for(int waiting) const {
    const instruction& action = current_action(waiting);
    if (is_send(action.kind) || is_receive(action.kind)) return peer_of(action);
    int worker = 0;
    if (action.kind == action_kind::reduce || action.kind == action_kind::update) {
      while (arrived_at_barrier_[worker] & (action.kind == action_kind::reduce ? reduced : updated)) ++worker;
      return worker;
    }
    const bool back = action.kind != action_kind::forward;
    for_each_output(action.stage, back, [&](const stage_link& link, int channel) {
      if (!is_local(link) && channels_.is_busy(channel, action.micro_batch))
        worker = worker_of(back ? link.source : link.target);
    });
    return worker;
  }

  // Every transfer has happened if every forward and backward has, because these wait for their inputs.
  constexpr check_result first_missing_action() const {
    for (int s = 0; s < expected_.stages; ++s) {
      if (forwarded_[s] == expected_.micro_batches && (!expected_.trains || retired_[s] == expected_.micro_batches))
        continue;
      for (int m = 0; m < expected_.micro_batches; ++m) {
        const int state = state_[s * expected_.micro_batches + m];
        if (!(state & forward_done)) return missing_action({action_kind::forward, s, m, -1});
        if (!expected_.trains) continue;
        if (!(state & input_done)) return missing_action({action_kind::backward, s, m, -1});
        if (!(state & parameters_done)) return missing_action({action_kind::backward_parameters, s, m, -1});
      }
    }
    for (int s = 0; expected_.trains && s < expected_.stages; ++s) {
      if (!(ended_[s] & reduced)) return missing_action({action_kind::reduce, s, -1, -1});
      if (!(ended_[s] & updated)) return missing_action({action_kind::update, s, -1, -1});
    }
    return {};
  }

  static constexpr int memory_size(const expected_step& step, int workers) {
    return 4 * workers + 2 + (8 + 3 * step.micro_batches) * step.stages +
           (5 + 3 * step.micro_batches) * step.link_count;
  }

  const expected_step expected_;
  const program_view* programs_;
  int workers_, channel_slots_;
  bool planned_;                                       // the channels have the plan's slots
  int workers_at_reduce_ = 0, workers_at_update_ = 0;  // that have arrived at these barriers
  int ready_count_ = 0;
  int blamed_ = -1;  // the worker with the fault, if another one ran
  slot_channels channels_;
  zeroed_array<int> memory_;  // all arrays below

  // Per worker: the position in its program; whether it waits there; a stack of the workers that may run; marks of the
  // barriers at which it has arrived.
  int *position_ = nullptr, *waiting_ = nullptr, *ready_ = nullptr, *arrived_at_barrier_ = nullptr;
  // The links of each stage: [first_out_[s], first_out_[s + 1]), and link_in_[first_in_[s] ...].
  int *first_out_ = nullptr, *first_in_ = nullptr, *link_in_ = nullptr;
  // Per stage: numbers of links, numbers of micro-batches so far, marks.
  int *incoming_ = nullptr, *outgoing_gradients_ = nullptr;
  int *forwarded_ = nullptr, *retired_ = nullptr, *held_ = nullptr, *ended_ = nullptr;
  // Per (stage, micro-batch): marks, and the numbers of activations and gradients received.
  int *state_ = nullptr, *activations_ = nullptr, *gradients_ = nullptr;
  // Per channel: the numbers of micro-batches sent and received, and the order of sends.
  int *sent_ = nullptr, *received_ = nullptr, *order_ = nullptr;
  // Per (link, micro-batch): marks.
  int* departed_ = nullptr;
};

}  // namespace gpipe::detail
