#pragma once

#include <gpipe/core/zeroed_array.hpp>
#include <gpipe/plan/schedule/contract/action.hpp>
#include <gpipe/tools/search/pipeline.hpp>

#include <cstdint>

namespace gpipe {

/// An action that a worker could begin now, for a rule that chooses among them.
struct ready_action {
  action_kind kind = action_kind::idle;  ///< forward, backward_input or backward_parameters
  int stage = 0, micro_batch = 0;
  int worker = 0, stages = 1, micro_batches = 1;
  int in_flight = 0;                  ///< micro-batches of the stage between forward and parameter part
  std::int64_t bytes = 0, limit = 0;  ///< the worker's, before the action
};

namespace detail {

// change: the schedule search; the memory that a forward leaves free
/// Makes a table by a rule: in the order of time, each worker that is free begins the action with the smallest rank.
/// `rule(action)` is the rank; a negative one waits until no worker can begin anything else. A rule with a member
/// `waits()` also chooses among the actions that may begin within that time.
///
/// A forward waits if its bytes do not fit. On the way down of a V it leaves room for a forward on the way up, without
/// which no micro-batch on the way down would end. So every table ends if each worker has room for one micro-batch.
template <class Rule>
class list_schedule {
 public:
  constexpr list_schedule(const searched_pipeline& pipeline, const Rule& rule, worker_orders& orders)
      : pipeline_(pipeline),
        rule_(rule),
        orders_(orders),
        S_(pipeline.stage_count()),
        M_(pipeline.micro_batches),
        arrivals_(2 * S_ * M_),
        worker_free_(pipeline.workers),
        bytes_(pipeline.workers),
        link_free_(2 * S_),
        done_(6 * pipeline.workers),
        lengths_(pipeline.workers) {
    for (int i = 0; i < 2 * S_ * M_; ++i) arrivals_[i] = -1;
  }

  /// The makespan.
  constexpr std::int64_t run() {
    std::int64_t last = 0;
    for (int left = pipeline_.workers * orders_.length(); left > 0; --left) {
      found next = earliest_of_all(false);
      if (next.none()) next = earliest_of_all(true);
      if (const std::int64_t end = begin(next.worker, choose(next)); end > last) last = end;
    }
    return last;
  }

 private:
  constexpr int codes() const { return 3 * pipeline_.chunks(); }
  constexpr std::int64_t& arrival(bool back, int s, int m) const { return arrivals_[(back * S_ + s) * M_ + m]; }

  /// When the worker's next action of a code may begin; -1: not yet known.
  constexpr std::int64_t begin_of(int w, int code) const {
    const int s = pipeline_.stage_at(w, chunk_of(code)), m = done_[6 * w + code];
    const action_kind kind = kind_of(code);
    if (m == M_ || (kind != action_kind::forward && m == done_[6 * w + code - 1])) return -1;
    std::int64_t ready = 0;
    if (kind == action_kind::forward) {
      if (s > 0) ready = arrival(false, s - 1, m);
      std::int64_t room = pipeline_.limit(w) - pipeline_.stage(s).kept;
      if (code == 0 && codes() == 6) room -= pipeline_.stage(pipeline_.stage_at(w, 1)).kept;
      if (bytes_[w] > room) return -1;
    } else if (kind == action_kind::backward_input && s + 1 < S_) {
      ready = arrival(true, s + 1, m);
    }
    return ready < 0 ? -1 : ready > worker_free_[w] ? ready : worker_free_[w];
  }
  constexpr std::int64_t rank_of(int w, int code) const {
    const int s = pipeline_.stage_at(w, chunk_of(code)), *done = done_.data() + 6 * w + 3 * chunk_of(code);
    return rule_(ready_action{kind_of(code), s, done_[6 * w + code], w, S_, M_, done[0] - done[2], bytes_[w],
                              pipeline_.limit(w)});
  }

  struct found {
    int worker = -1;
    std::int64_t begin = 0;
    bool any = false;  ///< negative ranks count, too
    constexpr bool none() const { return worker < 0; }
  };
  constexpr found earliest_of_all(bool any) const {
    found first{-1, 0, any};
    for (int w = 0; w < pipeline_.workers; ++w)
      for (int c = 0; c < codes(); ++c)
        if (const std::int64_t begin = begin_of(w, c);
            begin >= 0 && (first.none() || begin < first.begin) && (any || rank_of(w, c) >= 0))
          first.worker = w, first.begin = begin;
    return first;
  }

  constexpr int choose(const found& next) const {
    const int w = next.worker;
    std::int64_t until = next.begin, rank = 0;
    if constexpr (requires { rule_.waits(); }) until += rule_.waits();
    int chosen = -1;
    for (int c = 0; c < codes(); ++c) {
      const std::int64_t begin = begin_of(w, c);
      if (begin < 0 || begin > until) continue;
      const std::int64_t action_rank = rank_of(w, c);
      if ((action_rank < 0 && !next.any) || (chosen >= 0 && action_rank >= rank)) continue;
      chosen = c, rank = action_rank;
    }
    return chosen;
  }

  /// Begins the action, and returns its end.
  constexpr std::int64_t begin(int w, int code) {
    const int s = pipeline_.stage_at(w, chunk_of(code)), m = done_[6 * w + code];
    const action_kind kind = kind_of(code);
    const std::int64_t end = begin_of(w, code) + time_of(pipeline_.stage(s), kind);
    orders_.row(w)[lengths_[w]++] = static_cast<std::uint8_t>(code);
    ++done_[6 * w + code];
    bytes_[w] += taken_by(pipeline_.stage(s), kind);
    worker_free_[w] = end;
    if (kind == action_kind::backward_parameters) return end;
    const bool back = kind == action_kind::backward_input;
    std::int64_t& arrived = arrival(back, s, m) = end;
    const int target = back ? s - 1 : s + 1;
    if (target < 0 || target == S_) return end;
    if (const auto time = pipeline_.transfer(back ? target : s, back); time > 0) {
      std::int64_t& link = link_free_[2 * s + back];
      if (link < end) link = end;
      arrived = link += time;
    }
    return end;
  }

  const searched_pipeline pipeline_;
  const Rule& rule_;
  worker_orders& orders_;
  int S_, M_;
  zeroed_array<std::int64_t> arrivals_, worker_free_, bytes_, link_free_;
  zeroed_array<int> done_, lengths_;
};

}  // namespace detail

}  // namespace gpipe
