#pragma once

#include <gpipe/core/zeroed_array.hpp>
#include <gpipe/tools/search/pipeline.hpp>

#include <cstdint>

namespace gpipe {

namespace detail {

// change: the schedule search; an edge
/// A lower bound of every table's makespan, by longest paths from the begin of the step to an action (its head) and
/// from the action's end to the end of the step (its tail):
///
///     F(s-1, i) -> F(s, i) -> Bx(s, i) -> W(s, i),   Bx(s+1, i) -> Bx(s, i),   and each code's micro-batches ascend
///
/// and through memory. With C bytes on a worker, and a bytes per micro-batch until its input part, then w until its
/// parameter part, a forward waits until enough of them have left:
///
///     F(i) after Bx(i - floor(C / a))  and after  W(i - 1 - floor((C - a) / w))
///
/// On the way up of a V a micro-batch still holds its a bytes of the way down, so C / (a + a') of them go up; on the
/// way down (C - a') / a of them leave room for one that goes up. A forward cannot begin before the worker has done all
/// that must precede it, for the best number of input parts done. Each worker alone gives two more bounds: the work
/// that it can do before its gradients arrive, and Jackson's preemptive schedule, which may interrupt actions and
/// always runs the ready one with the longest tail (Carlier, 1982).
class table_bound {
 public:
  constexpr explicit table_bound(const searched_pipeline& pipeline)
      : pipeline_(pipeline),
        M_(pipeline.micro_batches),
        head_(3 * pipeline.stage_count() * M_),
        tail_(3 * pipeline.stage_count() * M_),
        placed_(3 * pipeline.stage_count()),
        worker_free_(pipeline.workers) {
    for (int i = M_ - 1; i >= 0; --i) tails(i);
  }

  /// The bound of every table that begins with the actions placed so far.
  constexpr std::int64_t run() {
    for (int i = 0; i < M_; ++i) heads(i);
    std::int64_t bound = 0;
    for (int w = 0; w < pipeline_.workers; ++w) {
      raise(bound, one_worker(w));
      raise(bound, until_gradients(w));
    }
    return bound;
  }

  // A table grows from its beginning: an action gets its begin, and its worker is free again after it.

  constexpr void place(int worker, int code, std::int64_t begin) {
    const int kind = code % 3, s = pipeline_.stage_at(worker, chunk_of(code));
    head_[at(kind, s, count(kind, s)++)] = begin;
    worker_free_[worker] = begin + time(kind, s);
  }
  /// Takes back the last action of a code, before which the worker was free at `free_time`.
  constexpr void take_back(int worker, int code, std::int64_t free_time) {
    --count(code % 3, pipeline_.stage_at(worker, chunk_of(code)));
    worker_free_[worker] = free_time;
  }
  /// The worker begins nothing before this time.
  constexpr void wait(int worker, std::int64_t until) { worker_free_[worker] = until; }
  constexpr std::int64_t worker_free(int worker) const { return worker_free_[worker]; }
  constexpr int placed(int worker, int code) const {
    return count(code % 3, pipeline_.stage_at(worker, chunk_of(code)));
  }
  /// A lower bound, by the last run, of the begin of the worker's next action of a code.
  constexpr std::int64_t head_of_next(int worker, int code) const {
    return head_[at(code % 3, pipeline_.stage_at(worker, chunk_of(code)), placed(worker, code))];
  }

 private:
  enum : int { F, Bx, W };  // NOLINT: as in the formulas above

  constexpr int& count(int kind, int s) const { return placed_[kind * pipeline_.stage_count() + s]; }

  constexpr int at(int kind, int s, int i) const { return (kind * pipeline_.stage_count() + s) * M_ + i; }
  constexpr std::int64_t time(int kind, int s) const { return time_of(pipeline_.stage(s), kind_of(kind)); }
  constexpr std::int64_t end(int kind, int s, int i) const { return head_[at(kind, s, i)] + time(kind, s); }
  /// The other stage of the worker's V; -1: none.
  constexpr int paired_stage(int s) const {
    return pipeline_.placed == placement::v ? 2 * pipeline_.workers - 1 - s : -1;
  }
  constexpr bool goes_up(int s) const { return pipeline_.chunk_of(s) == 1; }

  static constexpr void raise(std::int64_t& max, std::int64_t value) {
    if (value > max) max = value;
  }
  /// How often b goes into a, at most M.
  constexpr int times(std::int64_t a, std::int64_t b) const {
    if (a < 0) return 0;
    return b <= 0 || a / b > M_ ? M_ : static_cast<int>(a / b);
  }

  /// Calls `f(kind, stage, i)` for each action that must free its bytes before forward i of a stage.
  template <class Use>
  constexpr void leaves_before(int s, int i, const Use& f) const {
    const std::int64_t C = pipeline_.limit(pipeline_.worker_of(s)), a = pipeline_.stage(s).kept,
                       w = pipeline_.stage(s).held;
    const int paired = paired_stage(s);
    const std::int64_t b = paired < 0 ? 0 : pipeline_.stage(paired).kept;
    const auto call = [&](int kind, int stage, int m) {
      if (m >= 0) f(kind, stage, m);
    };
    if (paired >= 0 && goes_up(s)) {
      call(Bx, s, i - times(C, a + b));
      call(W, s, i - 1 - times(C - a - b, w));
    } else {
      call(Bx, s, i - times(C, a));
      call(W, s, i - 1 - times(C - a, w));
      if (paired >= 0) call(Bx, paired, i - times(C - b, a));
    }
  }

  /// When forward i may begin, for the best number k of finished input parts: after the last of these, after the last
  /// parameter part that must be finished then, and after the worker's time for all this work.
  constexpr std::int64_t forward_with_room(int s, int i) const {
    const int paired = paired_stage(s);
    const bool up = paired >= 0 && goes_up(s);
    const std::int64_t C = pipeline_.limit(pipeline_.worker_of(s)), w = pipeline_.stage(s).held,
                       a = pipeline_.stage(s).kept + (up ? pipeline_.stage(paired).kept : 0);
    std::int64_t best = -1;
    const auto work = [&](int kind, int stage, int total) {
      const int missing = total - count(kind, stage);
      return missing > 0 ? missing * time(kind, stage) : 0;
    };
    for (int k = count(Bx, s); k <= i; ++k) {
      const std::int64_t left = C - (i + 1 - k) * a;
      if (left < 0) continue;
      const int waiting = times(left, w), l = k > waiting ? k - waiting : 0;
      std::int64_t begin = worker_free_[pipeline_.worker_of(s)] + work(F, s, i) + work(Bx, s, k) + work(W, s, l);
      if (up) begin += work(F, paired, i + 1);
      else if (paired >= 0) begin += work(F, paired, k) + work(Bx, paired, k);
      if (k > 0) raise(begin, end(Bx, s, k - 1));
      if (l > 0) raise(begin, end(W, s, l - 1));
      if (best < 0 || begin < best) best = begin;
    }
    return best;
  }

  constexpr void heads(int i) {
    const int S = pipeline_.stage_count();
    for (int s = 0; s < S; ++s) {
      if (i < count(F, s)) continue;
      std::int64_t& head = head_[at(F, s, i)];
      head = i == count(F, s) ? worker_free_[pipeline_.worker_of(s)] : end(F, s, i - 1);
      if (s > 0) raise(head, end(F, s - 1, i) + pipeline_.transfer(s - 1, false));
      leaves_before(s, i, [&](int kind, int stage, int m) { raise(head, end(kind, stage, m)); });
      raise(head, forward_with_room(s, i));
    }
    for (int s = S - 1; s >= 0; --s) {
      const std::int64_t free_time = worker_free_[pipeline_.worker_of(s)];
      if (i >= count(Bx, s)) {
        std::int64_t& head = head_[at(Bx, s, i)];
        head = i == count(Bx, s) ? free_time : end(Bx, s, i - 1);
        raise(head, end(F, s, i));
        if (s + 1 < S) raise(head, end(Bx, s + 1, i) + pipeline_.transfer(s, true));
      }
      if (i >= count(W, s)) {
        std::int64_t& head = head_[at(W, s, i)];
        head = i == count(W, s) ? free_time : end(W, s, i - 1);
        raise(head, end(Bx, s, i));
      }
    }
  }

  constexpr void tails(int i) {
    const int S = pipeline_.stage_count();
    const auto after = [&](int kind, int s, int m) { return time(kind, s) + tail_[at(kind, s, m)]; };
    for (int s = 0; s < S; ++s) {
      if (i + 1 < M_) raise(tail_[at(W, s, i)], after(W, s, i + 1));
      std::int64_t& t = tail_[at(Bx, s, i)];
      raise(t, after(W, s, i));
      if (i + 1 < M_) raise(t, after(Bx, s, i + 1));
      if (s > 0) raise(t, pipeline_.transfer(s - 1, true) + after(Bx, s - 1, i));
    }
    for (int s = S - 1; s >= 0; --s) {
      std::int64_t& t = tail_[at(F, s, i)];
      raise(t, after(Bx, s, i));
      if (i + 1 < M_) raise(t, after(F, s, i + 1));
      if (s + 1 < S) raise(t, pipeline_.transfer(s, false) + after(F, s + 1, i));
    }
    for (int s = 0; s < S; ++s)
      leaves_before(s, i, [&](int kind, int stage, int m) { raise(tail_[at(kind, stage, m)], after(F, s, i)); });
  }

  /// Before the worker's i-th gradient arrives, it can have finished i micro-batches, and the forwards that fit into
  /// its memory. All other work comes after the head of that input part.
  constexpr std::int64_t until_gradients(int w) const {
    const int down = pipeline_.stage_at(w, 0), up = pipeline_.stage_at(w, pipeline_.chunks() - 1);
    std::int64_t of_micro_batch = 0, bound = 0;
    for (int c = 0; c < pipeline_.chunks(); ++c)
      for (const int kind : {F, Bx, W}) of_micro_batch += time(kind, pipeline_.stage_at(w, c));
    for (int i = 0; i < M_; ++i)
      raise(bound, head_[at(Bx, up, i)] + (M_ - i) * of_micro_batch - most_forwards(w, down, up, M_ - i));
    return bound;
  }
  /// The longest time of forwards that fit into the worker's memory: on a V, n on the way down and at most n on the way
  /// up.
  constexpr std::int64_t most_forwards(int w, int down, int up, int count) const {
    const std::int64_t C = pipeline_.limit(w), a = pipeline_.stage(down).kept, b = pipeline_.stage(up).kept;
    std::int64_t most = 0;
    for (int n = 0; n <= count && (n == 0 || a <= C / n); ++n) {
      const int room = times(C - n * a, b), up_work = down == up ? 0 : room < n ? room : n;
      raise(most, n * time(F, down) + up_work * time(F, up));
    }
    return most;
  }

  /// Jackson's schedule of one worker: at any time the ready action with the longest tail.
  constexpr std::int64_t one_worker(int w) {
    const int codes = 3 * pipeline_.chunks();
    int next[6]{};           // per code, the first micro-batch that is not finished
    std::int64_t left[6]{};  // ... and its remaining time
    std::int64_t clock = worker_free_[w], bound = clock;
    const auto id = [&](int c) { return at(c % 3, pipeline_.stage_at(w, chunk_of(c)), next[c]); };
    for (int c = 0; c < codes; ++c) next[c] = placed(w, c), left[c] = time(c % 3, pipeline_.stage_at(w, chunk_of(c)));
    for (;;) {
      // Both heads and tails of a code's micro-batches are in order, so only the first may run.
      int best = -1;
      std::int64_t later = -1;
      for (int c = 0; c < codes; ++c) {
        if (next[c] == M_) continue;
        if (head_[id(c)] <= clock) {
          if (best < 0 || tail_[id(c)] > tail_[id(best)]) best = c;
        } else if (later < 0 || head_[id(c)] < later) {
          later = head_[id(c)];
        }
      }
      if (best < 0) {
        if (later < 0) return bound;
        clock = later;
        continue;
      }
      std::int64_t until = clock + left[best];
      if (later >= 0 && later < until) until = later;
      left[best] -= until - clock;
      clock = until;
      if (left[best] > 0) continue;
      raise(bound, clock + tail_[id(best)]);
      left[best] = time(best % 3, pipeline_.stage_at(w, chunk_of(best)));
      ++next[best];
    }
  }

  const searched_pipeline pipeline_;
  int M_;
  zeroed_array<std::int64_t> head_, tail_;
  zeroed_array<int> placed_;                // [kind][stage]
  zeroed_array<std::int64_t> worker_free_;  // [worker]: when it is free
};

}  // namespace detail

/// A lower bound of the makespan of every table of a pipeline, for its placement, its times and its limits.
constexpr std::int64_t lower_bound_of_tables(const searched_pipeline& pipeline) {
  return detail::table_bound(pipeline).run();
}

}  // namespace gpipe
