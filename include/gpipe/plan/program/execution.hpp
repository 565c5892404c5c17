#pragma once

#include <gpipe/core/config.hpp>
#include <gpipe/core/zeroed_array.hpp>
#include <gpipe/plan/stages/link.hpp>
#include <gpipe/plan/timetable/fault.hpp>

#include <initializer_list>

namespace gpipe {

/// One worker's program, as `lower` makes it.
struct program_view {
  const instruction* lines = nullptr;
  int length = 0;
};

/// The work of a step that the programs must do together. An array has an element for each stage unless said otherwise,
/// and belongs to the caller.
struct expected_step {
  int stages = 1, micro_batches = 1;
  const link* links = nullptr;
  int link_count = 0;
  bool trains = true;
  const bool* recomputed = nullptr;  ///< [stage][micro-batch]; null: none is
  const int* in_flight = nullptr;    ///< the bound of the stash; null: not checked
  const int* worker_of = nullptr;    ///< null: stage s is worker s
};

/// A send completes only when its receive is reached.
inline constexpr int rendezvous = 0;

namespace detail {

/// Runs all programs together, once. Every channel has one sender and one receiver that block, so the final state does
/// not depend on the order in which workers run: one execution represents all.
class execution {
 public:
  GPIPE_COLD constexpr execution(const expected_step& terms, const program_view* programs, int workers, int slots)
      : t_(terms), programs_(programs), workers_(workers), slots_(slots), memory_(size(terms, workers)) {
    int* next = memory_.data();
    const int cells = t_.stages * t_.micro_batches, channels = 2 * t_.link_count;
    const auto allocate = [&next](int*& array, int length) {
      array = next;
      next += length;
    };
    allocate(position_, workers);
    allocate(waiting_, workers);
    allocate(ready_, workers);
    for (int** array : {&incoming_, &outgoing_gradients_, &forwarded_, &retired_, &held_, &ended_})
      allocate(*array, t_.stages);
    for (int** array : {&state_, &activations_, &gradients_}) allocate(*array, cells);
    allocate(sent_, channels);
    allocate(received_, channels);
    allocate(order_, channels * t_.micro_batches);
    allocate(departed_, t_.link_count * t_.micro_batches);
    for (int i = 0; i < t_.link_count; ++i) {
      ++incoming_[t_.links[i].to];
      if (t_.links[i].gradient) ++outgoing_gradients_[t_.links[i].from];
      if (is_local(t_.links[i])) has_local_links_ = true;
    }
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
  constexpr bool is_local(const link& it) const { return worker_of(it.from) == worker_of(it.to); }
  constexpr bool recomputed(int s, int m) const {
    return t_.recomputed && t_.recomputed[s * t_.micro_batches + m];
  }
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
    if (it.kind >= action_kind::receive_activation) return transfer(w, it);
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
      if (has_local_links_) pass_on(s, m, false);
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
    if (has_local_links_) pass_on(s, m, true);
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
    return fault::none;
  }

  constexpr void pass_on(int s, int m, bool back) {
    for (int i = 0; i < t_.link_count; ++i) {
      const link& it = t_.links[i];
      if (!is_local(it) || (back ? it.to : it.from) != s) continue;
      if (!back) ++activations_[it.to * t_.micro_batches + m];
      else if (it.gradient) ++gradients_[it.from * t_.micro_batches + m];
    }
  }

  constexpr fault finish(int w, const instruction& it) {
    int& ended = ended_[it.stage];
    const mark now = it.kind == action_kind::reduce ? reduced : updated;
    if (!t_.trains) return fault::unknown;
    if (ended & now) return fault::repeated;
    if (retired_[it.stage] != t_.micro_batches || (now == updated && !(ended & reduced))) return fault::premature;
    ended |= now;
    ++position_[w];
    return fault::none;
  }

  GPIPE_COLD constexpr fault transfer(int w, const instruction& it) {
    if (it.link < 0 || it.link >= t_.link_count) return fault::unknown;
    const link& over = t_.links[it.link];
    const bool back = it.kind == action_kind::send_gradient || it.kind == action_kind::receive_gradient;
    const bool sends = it.kind == action_kind::send_activation || it.kind == action_kind::send_gradient;
    const int peer = worker_of(it.stage == over.from ? over.to : over.from);
    if (it.stage != (sends == back ? over.to : over.from) || (back && !over.gradient) || peer == w)
      return fault::unknown;
    const int channel = 2 * it.link + back, at = it.stage * t_.micro_batches + it.micro_batch;
    if (sends) {
      if (departed_[it.link * t_.micro_batches + it.micro_batch] & (back ? gradient_left : activation_left))
        return fault::repeated;
      if (!(state_[at] & (back ? input_done : forward_done))) return fault::premature;
    } else if (back && !(state_[at] & recompute_done) && recomputed(it.stage, it.micro_batch)) {
      return fault::premature;
    }

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
    departed_[it.link * t_.micro_batches + it.micro_batch] |=
        it.kind == action_kind::send_gradient ? gradient_left : activation_left;
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
      const link& over = t_.links[it.link];
      const int peer = worker_of(it.stage == over.from ? over.to : over.from);
      bool comes = false;
      for (int i = position_[peer]; i < programs_[peer].length && !comes; ++i) {
        const instruction& other = programs_[peer].lines[i];
        comes = other.link == it.link && other.kind == counterpart(it.kind) && other.micro_batch == it.micro_batch;
      }
      if (!comes) return found(fault::unpaired, w);
    }
    return found(fault::deadlock, first);
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
    return 3 * workers + (6 + 3 * t.micro_batches) * t.stages + (4 + 3 * t.micro_batches) * t.link_count;
  }

  const expected_step t_;
  const program_view* programs_;
  int workers_, slots_;
  bool has_local_links_ = false;
  int ready_count_ = 0;
  int culprit_ = -1;  // the worker with the fault, if it is not the one that ran
  zeroed_array<int> memory_;  // of all arrays below

  // Of each worker: its line, whether it waits there for a peer; a stack of the workers that may run.
  int *position_ = nullptr, *waiting_ = nullptr, *ready_ = nullptr;
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

}  // namespace detail
}  // namespace gpipe
