#pragma once

#include <gpipe/core/config.hpp>
#include <gpipe/core/zeroed_array.hpp>
#include <gpipe/plan/program/slot_channels.hpp>
#include <gpipe/plan/schedule/contract/action.hpp>
#include <gpipe/plan/stages/link.hpp>
#include <gpipe/plan/timetable/fault.hpp>

#include <initializer_list>

namespace gpipe::detail {

/// The work of a step that the programs must do together. An array has an element for each stage unless said otherwise,
/// and belongs to the caller.
struct expected_step {
  int stages = 1, micro_batches = 1;
  const stage_link* links = nullptr;
  int link_count = 0;
  bool trains = true;
  const bool* recomputed = nullptr;  ///< [stage][micro-batch]; null: none is
  const int* in_flight = nullptr;    ///< the bound of the stash; null: not checked
  const int* worker_of = nullptr;    ///< null: stage s is worker s
  /// The plan's slots: a stage acquires the slot of what it sends before it computes it, and releases the slot of what
  /// it received after its last use. Without them a channel has a number of slots, first in, first out.
  link_slot_table memory_slots{};
  bool ties = false;  ///< with `slots`: workers wait for each other before their first `reduce`, too
};

/// A send completes only when its receive is reached.
inline constexpr int rendezvous = 0;

/// Runs all programs together, once. Every channel has one sender and one receiver that block, so the final state does
/// not depend on the order in which workers run: one execution represents all.
class execution {
 public:
  GPIPE_COLD constexpr execution(const expected_step& terms, const program_view* programs, int workers,
                                 int memory_slots)
      : t_(terms),
        programs_(programs),
        workers_(workers),
        slots_(memory_slots),
        planned_(terms.memory_slots.stash != nullptr),
        channels_(terms.memory_slots, terms.link_count, terms.micro_batches),
        memory_(size(terms, workers)) {
    int* next = memory_.data();
    const int cells = t_.stages * t_.micro_batches, channels = 2 * t_.link_count;
    const auto allocate = [&next](int*& array, int length) {
      array = next;
      next += length;
    };
    allocate(position_, workers);
    allocate(waiting_, workers);
    allocate(ready_, workers);
    allocate(met_, workers);
    for (int** array : {&incoming_, &outgoing_gradients_, &forwarded_, &retired_, &held_, &ended_})
      allocate(*array, t_.stages);
    allocate(first_out_, t_.stages + 1);
    allocate(first_in_, t_.stages + 1);
    allocate(link_in_, t_.link_count);
    for (int** array : {&state_, &activations_, &gradients_}) allocate(*array, cells);
    allocate(sent_, channels);
    allocate(received_, channels);
    allocate(order_, channels * t_.micro_batches);
    allocate(departed_, t_.link_count * t_.micro_batches);
    for (int i = 0; i < t_.link_count; ++i) {
      ++incoming_[t_.links[i].to];
      if (t_.links[i].gradient) ++outgoing_gradients_[t_.links[i].from];
      ++first_out_[t_.links[i].from + 1];
    }
    for (int s = 0; s < t_.stages; ++s) {
      first_out_[s + 1] += first_out_[s];
      first_in_[s + 1] = first_in_[s] + incoming_[s];
    }
    for (int i = t_.link_count - 1; i >= 0; --i) {  // descending, so that `incoming_` counts down to a link's place
      const int to = t_.links[i].to;
      link_in_[first_in_[to] + --incoming_[to]] = i;
    }
    for (int s = 0; s < t_.stages; ++s) incoming_[s] = first_in_[s + 1] - first_in_[s];
  }

  /// After a deadlock: calls `sink(worker, line)` for each worker of a circle, of which each waits for the next.
  template <class Sink>
  GPIPE_COLD constexpr void circle(Sink&& sink) const {
    int w = 0;
    while (!waiting_[w]) ++w;
    for (int i = 0; i < workers_; ++i) w = awaited(w);  // from here on it is on the circle
    int begin = w;
    for (int i = awaited(w); i != w; i = awaited(i))
      if (i < begin) begin = i;
    w = begin;
    do {
      sink(w, programs_[w].lines[position_[w]]);
      w = awaited(w);
    } while (w != begin);
  }

  GPIPE_COLD constexpr check_result run() {
    for (int w = workers_ - 1; w >= 0; --w) ready_[ready_count_++] = w;
    while (ready_count_ > 0) {
      const int w = ready_[--ready_count_];
      while (position_[w] < programs_[w].length) {
        const fault what = step(w, programs_[w].lines[position_[w]]);
        if (what != fault::none) return found(what, culprit_ < 0 ? w : culprit_);
        if (waiting_[w]) break;
      }
    }
    for (int w = 0; w < workers_; ++w)
      if (waiting_[w]) return stuck();
    return unfinished();
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

  constexpr int worker_of(int stage) const { return t_.worker_of ? t_.worker_of[stage] : stage; }
  constexpr bool is_local(const stage_link& it) const { return worker_of(it.from) == worker_of(it.to); }
  constexpr bool recomputed(int s, int m) const { return t_.recomputed && t_.recomputed[s * t_.micro_batches + m]; }
  constexpr check_result found(fault what, int worker) const {
    return {what, worker, position_[worker], programs_[worker].lines[position_[worker]]};
  }
  constexpr check_result never(const instruction& it) const {
    const int worker = worker_of(it.stage);
    return {fault::missing, worker, programs_[worker].length, it};
  }

  /// Runs the line of worker w if it can run, else leaves it waiting.
  constexpr fault step(int w, const instruction& it) {
    const int s = it.stage, m = it.micro_batch;
    if (s < 0 || s >= t_.stages || worker_of(s) != w) return fault::unknown;
    if (it.kind == action_kind::reduce || it.kind == action_kind::update) return finish(w, it);
    if (m < 0 || m >= t_.micro_batches) return fault::unknown;
    if (it.kind >= action_kind::receive_activation) return planned_ ? hand_over(w, it) : transfer(w, it);
    if (planned_)
      if (const fault what = acquire(w, it); what != fault::none || waiting_[w]) return what;
    ++position_[w];
    const fault what = compute(it, s, m, s * t_.micro_batches + m);
    if (what != fault::none) --position_[w];
    return what;
  }

  GPIPE_COLD constexpr fault compute(const instruction& it, int s, int m, int at) {
    int& state = state_[at];
    if (it.kind == action_kind::forward) {
      if (state & forward_done) return fault::repeated;
      if (activations_[at] != incoming_[s]) return fault::premature;
      ++forwarded_[s];
      const fault what = hold(s, at);
      state |= forward_done;
      if (!t_.trains) --held_[s];
      pass_on(s, m, false);
      if (planned_ && !t_.trains && !release(s, m)) return fault::unpaired;
      return what;
    }
    if (!t_.trains) return fault::unknown;
    if (it.kind == action_kind::backward_parameters) {
      if (state & parameters_done) return fault::repeated;
      if (!(state & input_done)) return fault::premature;
      return retire(s, m, at);
    }
    if (!(state & forward_done)) return fault::premature;
    if (it.kind == action_kind::recompute) {
      if ((state & recompute_done) || !recomputed(s, m)) return fault::repeated;
      if (state & input_done) return fault::premature;
      state |= recompute_done;
      return fault::none;
    }
    if (it.kind != action_kind::backward && it.kind != action_kind::backward_input) return fault::unknown;
    if (state & input_done) return fault::repeated;
    if (gradients_[at] != outgoing_gradients_[s]) return fault::premature;
    if (!(state & recompute_done) && recomputed(s, m)) return fault::premature;
    state |= input_done;
    pass_on(s, m, true);
    return it.kind == action_kind::backward ? retire(s, m, at) : fault::none;
  }

  constexpr fault hold(int s, int at) {
    if (state_[at] & stashed) return fault::none;
    state_[at] |= stashed;
    ++held_[s];
    return t_.in_flight && held_[s] > t_.in_flight[s] ? fault::stash : fault::none;
  }

  constexpr fault retire(int s, int m, int at) {
    if (retired_[s] != m) return fault::retirement;
    ++retired_[s];
    --held_[s];
    state_[at] |= parameters_done;
    return planned_ && !release(s, m) ? fault::unpaired : fault::none;
  }

  /// Calls `use(link index, link, channel)` for each link over which a stage sends activations or, if `back`,
  /// gradients.
  template <class Use>
  constexpr void each_leaving(int s, bool back, Use&& use) const {
    const int *const first = back ? first_in_ : first_out_, end = first[s + 1];
    for (int k = first[s]; k < end; ++k) {
      const int i = back ? link_in_[k] : k;
      if (const stage_link& it = t_.links[i]; !back || it.gradient) use(i, it, 2 * i + back);
    }
  }

  /// The results of a stage are ready for the other stages of its worker.
  constexpr void pass_on(int s, int m, bool back) {
    each_leaving(s, back, [&](int, const stage_link& it, int channel) {
      if (!is_local(it)) return;
      ++(back ? gradients_[it.from * t_.micro_batches + m] : activations_[it.to * t_.micro_batches + m]);
      if (!planned_) return;
      channels_.publish(channel, m);
      channels_.consume(channel, m);
    });
  }

  // The slots for what a line will send. Between stages of one worker nothing waits: a slot that is not free would be
  // overwritten.
  GPIPE_COLD constexpr fault acquire(int w, const instruction& it) {
    const bool back = it.kind == action_kind::backward || it.kind == action_kind::backward_input;
    if (!back && it.kind != action_kind::forward) return fault::none;
    fault found = fault::none;
    each_leaving(it.stage, back, [&](int, const stage_link& over, int channel) {
      if (found != fault::none || waiting_[w]) return;
      if (!channels_.exists(channel, it.micro_batch)) found = fault::stash;
      else if (channels_.acquire(channel, it.micro_batch) == slot_channels::result::waits) {
        if (is_local(over)) found = fault::stash;
        else waiting_[w] = true;
      }
    });
    return found;
  }

  // The last use of what a stage received for a micro-batch.
  GPIPE_COLD constexpr bool release(int s, int m) {
    bool right = true;
    const auto free = [&](const stage_link& it, int channel, int sender) {
      right = channels_.release(channel, m) == slot_channels::result::done && right;
      if (!is_local(it) && waiting_[worker_of(sender)]) wake(worker_of(sender));
    };
    for (int k = first_in_[s]; k < first_in_[s + 1]; ++k)
      free(t_.links[link_in_[k]], 2 * link_in_[k], t_.links[link_in_[k]].from);
    for (int i = first_out_[s]; t_.trains && i < first_out_[s + 1]; ++i)
      if (t_.links[i].gradient) free(t_.links[i], 2 * i + 1, t_.links[i].to);
    return right;
  }

  constexpr fault finish(int w, const instruction& it) {
    int& ended = ended_[it.stage];
    const mark now = it.kind == action_kind::reduce ? reduced : updated;
    if (!t_.trains) return fault::unknown;
    if (ended & now) return fault::repeated;
    if (retired_[it.stage] != t_.micro_batches || (now == updated && !(ended & reduced))) return fault::premature;
    if (planned_ && (t_.ties || now == updated) && !meet(w, now)) return fault::none;
    ended |= now;
    ++position_[w];
    return fault::none;
  }

  // Whether all workers have come to their first line of this kind; else worker w waits.
  constexpr bool meet(int w, mark kind) {
    if (!(met_[w] & kind)) {
      met_[w] |= kind;
      if (++(kind == reduced ? at_reduce_ : at_update_) == workers_)
        for (int other = 0; other < workers_; ++other)
          if (other != w && waiting_[other]) wake(other);
    }
    waiting_[w] = (kind == reduced ? at_reduce_ : at_update_) < workers_;
    return !waiting_[w];
  }

  static constexpr bool goes_back(action_kind kind) {
    return kind == action_kind::send_gradient || kind == action_kind::receive_gradient;
  }
  constexpr int channel_of(const instruction& it) const { return 2 * it.link + goes_back(it.kind); }
  /// The worker at the other end of a transfer.
  constexpr int peer_of(const instruction& it) const {
    const stage_link& over = t_.links[it.link];
    return worker_of(it.stage == over.from ? over.to : over.from);
  }

  // Whether worker w may make a transfer now, apart from waiting for the other end.
  constexpr fault permit(int w, const instruction& it) const {
    if (it.link < 0 || it.link >= t_.link_count) return fault::unknown;
    const stage_link& over = t_.links[it.link];
    const bool back = goes_back(it.kind), sends = is_send(it.kind);
    if (it.stage != (sends == back ? over.to : over.from) || (back && !over.gradient) || peer_of(it) == w)
      return fault::unknown;
    const int at = it.stage * t_.micro_batches + it.micro_batch;
    if (sends) {
      if (departed_[it.link * t_.micro_batches + it.micro_batch] & (back ? gradient_left : activation_left))
        return fault::repeated;
      if (!(state_[at] & (back ? input_done : forward_done))) return fault::premature;
    } else if (back && !(state_[at] & recompute_done) && recomputed(it.stage, it.micro_batch)) {
      return fault::premature;
    }
    return fault::none;
  }

  // A transfer through the plan's slots.
  GPIPE_COLD constexpr fault hand_over(int w, const instruction& it) {
    if (const fault what = permit(w, it); what != fault::none) return what;
    const bool sends = is_send(it.kind);
    const auto turned =
        sends ? channels_.publish(channel_of(it), it.micro_batch) : channels_.consume(channel_of(it), it.micro_batch);
    if (turned == slot_channels::result::wrong) return fault::unpaired;
    waiting_[w] = turned == slot_channels::result::waits;
    if (waiting_[w]) return fault::none;
    const fault what = sends ? leave(it) : arrive(it, channel_of(it));
    if (what != fault::none) return what;
    ++position_[w];
    if (sends && waiting_[peer_of(it)]) wake(peer_of(it));
    return fault::none;
  }

  GPIPE_COLD constexpr fault transfer(int w, const instruction& it) {
    if (const fault what = permit(w, it); what != fault::none) return what;
    const int peer = peer_of(it), channel = channel_of(it);
    const bool sends = is_send(it.kind);
    if (slots_ == rendezvous) {
      const instruction* other = waiting_[peer] ? &programs_[peer].lines[position_[peer]] : nullptr;
      const bool meets = other && other->link == it.link && other->kind == counterpart(it.kind);
      if (!meets) {
        waiting_[w] = true;
        return fault::none;
      }
      if (other->micro_batch != it.micro_batch) return fault::unpaired;
      depart(sends ? it : *other, channel);
      const fault what = arrive(sends ? *other : it, channel);
      if (what != fault::none) {
        culprit_ = sends ? peer : w;
        return what;
      }
      ++position_[w];
      ++position_[peer];
      wake(peer);
      return fault::none;
    }
    waiting_[w] = sends ? sent_[channel] - received_[channel] >= slots_ : sent_[channel] == received_[channel];
    if (waiting_[w]) return fault::none;
    if (!sends && order_[channel * t_.micro_batches + received_[channel]] != it.micro_batch) return fault::unpaired;
    const fault what = sends ? depart(it, channel) : arrive(it, channel);
    if (what != fault::none) return what;
    ++position_[w];
    if (waiting_[peer]) wake(peer);
    return fault::none;
  }

  static constexpr action_kind counterpart(action_kind kind) {
    return kind == action_kind::send_activation      ? action_kind::receive_activation
           : kind == action_kind::receive_activation ? action_kind::send_activation
           : kind == action_kind::send_gradient      ? action_kind::receive_gradient
                                                     : action_kind::send_gradient;
  }

  constexpr fault depart(const instruction& it, int channel) {
    order_[channel * t_.micro_batches + sent_[channel]] = it.micro_batch;
    ++sent_[channel];
    return leave(it);
  }
  constexpr fault leave(const instruction& it) {
    departed_[it.link * t_.micro_batches + it.micro_batch] |= goes_back(it.kind) ? gradient_left : activation_left;
    return fault::none;
  }

  constexpr fault arrive(const instruction& it, int channel) {
    const int at = it.stage * t_.micro_batches + it.micro_batch;
    ++received_[channel];
    if (it.kind == action_kind::receive_gradient) {
      ++gradients_[at];
      return fault::none;
    }
    ++activations_[at];
    return hold(it.stage, at);
  }

  constexpr void wake(int w) {
    waiting_[w] = false;
    ready_[ready_count_++] = w;
  }

  // No worker can run any more. A worker whose counterpart never comes is the cause; the others only wait for it.
  constexpr check_result stuck() const {
    int first = -1;
    for (int w = 0; w < workers_; ++w) {
      if (!waiting_[w]) continue;
      if (first < 0) first = w;
      const instruction& it = programs_[w].lines[position_[w]];
      if (!is_send(it.kind) && !is_receive(it.kind)) {
        if (!waiting_[awaited(w)]) return found(fault::unpaired, w);
        continue;
      }
      const int peer = peer_of(it);
      bool comes = false;
      for (int i = position_[peer]; i < programs_[peer].length && !comes; ++i) {
        const instruction& other = programs_[peer].lines[i];
        comes = other.link == it.link && other.kind == counterpart(it.kind) && other.micro_batch == it.micro_batch;
      }
      if (!comes) return found(fault::unpaired, w);
    }
    return found(fault::deadlock, first);
  }

  /// The worker that a waiting worker waits for.
  constexpr int awaited(int w) const {
    const instruction& it = programs_[w].lines[position_[w]];
    if (is_send(it.kind) || is_receive(it.kind)) return peer_of(it);
    int other = 0;
    if (it.kind == action_kind::reduce || it.kind == action_kind::update) {
      while (met_[other] & (it.kind == action_kind::reduce ? reduced : updated)) ++other;
      return other;
    }
    const bool back = it.kind != action_kind::forward;
    each_leaving(it.stage, back, [&](int, const stage_link& over, int channel) {
      if (!is_local(over) && channels_.is_busy(channel, it.micro_batch)) other = worker_of(back ? over.from : over.to);
    });
    return other;
  }

  // Every transfer has happened if every forward and backward has, because these wait for their inputs.
  constexpr check_result unfinished() const {
    for (int s = 0; s < t_.stages; ++s) {
      if (forwarded_[s] == t_.micro_batches && (!t_.trains || retired_[s] == t_.micro_batches)) continue;
      for (int m = 0; m < t_.micro_batches; ++m) {
        const int state = state_[s * t_.micro_batches + m];
        if (!(state & forward_done)) return never({action_kind::forward, s, m, -1});
        if (!t_.trains) continue;
        if (!(state & input_done)) return never({action_kind::backward, s, m, -1});
        if (!(state & parameters_done)) return never({action_kind::backward_parameters, s, m, -1});
      }
    }
    for (int s = 0; t_.trains && s < t_.stages; ++s) {
      if (!(ended_[s] & reduced)) return never({action_kind::reduce, s, -1, -1});
      if (!(ended_[s] & updated)) return never({action_kind::update, s, -1, -1});
    }
    return {};
  }

  static constexpr int size(const expected_step& t, int workers) {
    return 4 * workers + 2 + (8 + 3 * t.micro_batches) * t.stages + (5 + 3 * t.micro_batches) * t.link_count;
  }

  const expected_step t_;
  const program_view* programs_;
  int workers_, slots_;
  bool planned_;                       // the channels have the plan's slots
  int at_reduce_ = 0, at_update_ = 0;  // the workers that have come there
  int ready_count_ = 0;
  int culprit_ = -1;  // the worker with the fault, if it is not the one that ran
  slot_channels channels_;
  zeroed_array<int> memory_;  // of all arrays below

  // Of each worker: its line, whether it waits there for a peer; a stack of the workers that may run; marks of where
  // it has met the others.
  int *position_ = nullptr, *waiting_ = nullptr, *ready_ = nullptr, *met_ = nullptr;
  // The links of each stage: [first_out_[s], first_out_[s + 1]), and link_in_[first_in_[s] ...].
  int *first_out_ = nullptr, *first_in_ = nullptr, *link_in_ = nullptr;
  // Of each stage: links, micro-batches so far, marks.
  int *incoming_ = nullptr, *outgoing_gradients_ = nullptr;
  int *forwarded_ = nullptr, *retired_ = nullptr, *held_ = nullptr, *ended_ = nullptr;
  // Of each (stage, micro-batch): marks, and the number of activations and gradients received.
  int *state_ = nullptr, *activations_ = nullptr, *gradients_ = nullptr;
  // Of each channel: the number of micro-batches sent and received, and the order of sends.
  int *sent_ = nullptr, *received_ = nullptr, *order_ = nullptr;
  // Of each (link, micro-batch): marks.
  int* departed_ = nullptr;
};

}  // namespace gpipe::detail
