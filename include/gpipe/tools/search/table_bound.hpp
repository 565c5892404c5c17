#pragma once

#include <gpipe/core/zeroed_array.hpp>
#include <gpipe/tools/search/pipeline.hpp>

#include <cstdint>

namespace gpipe {

namespace detail {

/// A lower bound of every table's makespan, by longest paths from the begin of the step to an action (its head) and
/// from the action's end to the end of the step (its tail):
///
///     F(s-1, i) -> F(s, i) -> Bx(s, i) -> W(s, i),   Bx(s+1, i) -> Bx(s, i),   and each code's micro-batches ascend
///
/// and through memory. With C bytes on a worker, a of them for a micro-batch until its input part and w until its
/// parameter part, a forward waits for what must have left:
///
///     F(i) after Bx(i - floor(C / a))  and after  W(i - 1 - floor((C - a) / w))
///
/// On the way up of a V a micro-batch still holds its a on the way down, so C / (a + a') of them go up; on the way down
/// (C - a') / a of them leave room for one that goes up. A forward cannot begin before the worker has done what must
/// come before it, for the best number of input parts done. Two bounds follow for each worker by itself: by what it can
/// do before its gradients arrive, and if it may interrupt actions, always for the longest tail (Jackson's preemptive
/// schedule; Carlier, 1982).
class table_bound {
 public:
  constexpr explicit table_bound(const searched_pipeline& of)
      : of_(of),
        M_(of.micro_batches),
        head_(3 * of.stage_count() * M_),
        tail_(3 * of.stage_count() * M_),
        placed_(3 * of.stage_count()),
        now_(of.workers) {
    for (int i = M_ - 1; i >= 0; --i) tails(i);
  }

  /// The bound of every table that begins with the actions placed so far.
  constexpr std::int64_t run() {
    for (int i = 0; i < M_; ++i) heads(i);
    std::int64_t bound = 0;
    for (int w = 0; w < of_.workers; ++w) {
      raise(bound, one_worker(w));
      raise(bound, until_gradients(w));
    }
    return bound;
  }

  // A table grows from its begin: the next action of a code has a time, and its worker is free again after it.

  constexpr void place(int worker, int code, std::int64_t begin) {
    const int kind = code % 3, s = of_.stage_at(worker, chunk_of(code));
    head_[at(kind, s, count(kind, s)++)] = begin;
    now_[worker] = begin + time(kind, s);
  }
  /// Takes the last action of a code back; the worker was free at `now` before.
  constexpr void take_back(int worker, int code, std::int64_t now) {
    --count(code % 3, of_.stage_at(worker, chunk_of(code)));
    now_[worker] = now;
  }
  /// The worker begins nothing before this time.
  constexpr void wait(int worker, std::int64_t until) { now_[worker] = until; }
  constexpr std::int64_t now(int worker) const { return now_[worker]; }
  constexpr int placed(int worker, int code) const { return count(code % 3, of_.stage_at(worker, chunk_of(code))); }
  /// Since the last run: the worker's next action of a code does not begin before.
  constexpr std::int64_t head_of_next(int worker, int code) const {
    return head_[at(code % 3, of_.stage_at(worker, chunk_of(code)), placed(worker, code))];
  }

 private:
  enum : int { F, Bx, W };  // NOLINT: as in the text

  constexpr int& count(int kind, int s) const { return placed_[kind * of_.stage_count() + s]; }

  constexpr int at(int kind, int s, int i) const { return (kind * of_.stage_count() + s) * M_ + i; }
  constexpr std::int64_t time(int kind, int s) const { return time_of(of_.stage(s), kind_of(kind)); }
  constexpr std::int64_t end(int kind, int s, int i) const { return head_[at(kind, s, i)] + time(kind, s); }
  /// The other stage of the worker's V; -1: none.
  constexpr int other(int s) const { return of_.placed == placement::v ? 2 * of_.workers - 1 - s : -1; }
  constexpr bool goes_up(int s) const { return of_.chunk_of(s) == 1; }

  static constexpr void raise(std::int64_t& max, std::int64_t value) {
    if (value > max) max = value;
  }
  /// How often b goes into a, at most M.
  constexpr int times(std::int64_t a, std::int64_t b) const {
    if (a < 0) return 0;
    return b <= 0 || a / b > M_ ? M_ : static_cast<int>(a / b);
  }

  /// Calls `f(kind, stage, i)` for what must leave before forward i of a stage.
  template <class Use>
  constexpr void leaves_before(int s, int i, const Use& f) const {
    const std::int64_t C = of_.limit(of_.worker_of(s)), a = of_.stage(s).kept, w = of_.stage(s).held;
    const int o = other(s);
    const std::int64_t b = o < 0 ? 0 : of_.stage(o).kept;
    const auto call = [&](int kind, int stage, int m) {
      if (m >= 0) f(kind, stage, m);
    };
    if (o >= 0 && goes_up(s)) {
      call(Bx, s, i - times(C, a + b));
      call(W, s, i - 1 - times(C - a - b, w));
    } else {
      call(Bx, s, i - times(C, a));
      call(W, s, i - 1 - times(C - a, w));
      if (o >= 0) call(Bx, o, i - times(C - b, a));
    }
  }

  /// When forward i may begin, for the best number k of input parts that are done: the end of the last of these and of
  /// the parameter parts that must be done then, and the worker's work for all of them.
  constexpr std::int64_t forward_with_room(int s, int i) const {
    const int o = other(s);
    const bool up = o >= 0 && goes_up(s);
    const std::int64_t C = of_.limit(of_.worker_of(s)), w = of_.stage(s).held,
                       a = of_.stage(s).kept + (up ? of_.stage(o).kept : 0);
    std::int64_t best = -1;
    const auto work = [&](int kind, int stage, int all) {
      const int more = all - count(kind, stage);
      return more > 0 ? more * time(kind, stage) : 0;
    };
    for (int k = count(Bx, s); k <= i; ++k) {
      const std::int64_t left = C - (i + 1 - k) * a;
      if (left < 0) continue;
      const int waiting = times(left, w), l = k > waiting ? k - waiting : 0;
      std::int64_t begin = now_[of_.worker_of(s)] + work(F, s, i) + work(Bx, s, k) + work(W, s, l);
      if (up) begin += work(F, o, i + 1);
      else if (o >= 0) begin += work(F, o, k) + work(Bx, o, k);
      if (k > 0) raise(begin, end(Bx, s, k - 1));
      if (l > 0) raise(begin, end(W, s, l - 1));
      if (best < 0 || begin < best) best = begin;
    }
    return best;
  }

  constexpr void heads(int i) {
    const int S = of_.stage_count();
    for (int s = 0; s < S; ++s) {
      if (i < count(F, s)) continue;
      std::int64_t& h = head_[at(F, s, i)];
      h = i == count(F, s) ? now_[of_.worker_of(s)] : end(F, s, i - 1);
      if (s > 0) raise(h, end(F, s - 1, i) + of_.transfer(s - 1, false));
      leaves_before(s, i, [&](int kind, int stage, int m) { raise(h, end(kind, stage, m)); });
      raise(h, forward_with_room(s, i));
    }
    for (int s = S - 1; s >= 0; --s) {
      const std::int64_t now = now_[of_.worker_of(s)];
      if (i >= count(Bx, s)) {
        std::int64_t& h = head_[at(Bx, s, i)];
        h = i == count(Bx, s) ? now : end(Bx, s, i - 1);
        raise(h, end(F, s, i));
        if (s + 1 < S) raise(h, end(Bx, s + 1, i) + of_.transfer(s, true));
      }
      if (i >= count(W, s)) {
        std::int64_t& p = head_[at(W, s, i)];
        p = i == count(W, s) ? now : end(W, s, i - 1);
        raise(p, end(Bx, s, i));
      }
    }
  }

  constexpr void tails(int i) {
    const int S = of_.stage_count();
    const auto after = [&](int kind, int s, int m) { return time(kind, s) + tail_[at(kind, s, m)]; };
    for (int s = 0; s < S; ++s) {
      if (i + 1 < M_) raise(tail_[at(W, s, i)], after(W, s, i + 1));
      std::int64_t& t = tail_[at(Bx, s, i)];
      raise(t, after(W, s, i));
      if (i + 1 < M_) raise(t, after(Bx, s, i + 1));
      if (s > 0) raise(t, of_.transfer(s - 1, true) + after(Bx, s - 1, i));
    }
    for (int s = S - 1; s >= 0; --s) {
      std::int64_t& t = tail_[at(F, s, i)];
      raise(t, after(Bx, s, i));
      if (i + 1 < M_) raise(t, after(F, s, i + 1));
      if (s + 1 < S) raise(t, of_.transfer(s, false) + after(F, s + 1, i));
    }
    for (int s = 0; s < S; ++s)
      leaves_before(s, i, [&](int kind, int stage, int m) { raise(tail_[at(kind, stage, m)], after(F, s, i)); });
  }

  /// Until the worker's i-th gradient arrives, it can have run i micro-batches to their end, and forwards for which
  /// there is memory. All other work comes after the head of that input part.
  constexpr std::int64_t until_gradients(int w) const {
    const int down = of_.stage_at(w, 0), up = of_.stage_at(w, of_.chunks() - 1);
    std::int64_t of_micro_batch = 0, bound = 0;
    for (int c = 0; c < of_.chunks(); ++c)
      for (const int kind : {F, Bx, W}) of_micro_batch += time(kind, of_.stage_at(w, c));
    for (int i = 0; i < M_; ++i)
      raise(bound, head_[at(Bx, up, i)] + (M_ - i) * of_micro_batch - most_forwards(w, down, up, M_ - i));
    return bound;
  }
  /// The longest work of forwards for which there is memory: on a V, for n on the way down, for at most n on the way
  /// up.
  constexpr std::int64_t most_forwards(int w, int down, int up, int count) const {
    const std::int64_t C = of_.limit(w), a = of_.stage(down).kept, b = of_.stage(up).kept;
    std::int64_t most = 0;
    for (int n = 0; n <= count && (n == 0 || a <= C / n); ++n) {
      const int room = times(C - n * a, b), others = down == up ? 0 : room < n ? room : n;
      raise(most, n * time(F, down) + others * time(F, up));
    }
    return most;
  }

  /// Jackson's schedule of one worker: at any time the ready action with the longest tail.
  constexpr std::int64_t one_worker(int w) {
    const int codes = 3 * of_.chunks();
    int next[6]{};           // of each code, the first micro-batch that is not over
    std::int64_t left[6]{};  // ... and its time that is left
    std::int64_t now = now_[w], bound = now;
    const auto id = [&](int c) { return at(c % 3, of_.stage_at(w, chunk_of(c)), next[c]); };
    for (int c = 0; c < codes; ++c) next[c] = placed(w, c), left[c] = time(c % 3, of_.stage_at(w, chunk_of(c)));
    for (;;) {
      // Both heads and tails of a code's micro-batches are in order, so only the first may run.
      int best = -1;
      std::int64_t later = -1;
      for (int c = 0; c < codes; ++c) {
        if (next[c] == M_) continue;
        if (head_[id(c)] <= now) {
          if (best < 0 || tail_[id(c)] > tail_[id(best)]) best = c;
        } else if (later < 0 || head_[id(c)] < later) {
          later = head_[id(c)];
        }
      }
      if (best < 0) {
        if (later < 0) return bound;
        now = later;
        continue;
      }
      std::int64_t until = now + left[best];
      if (later >= 0 && later < until) until = later;
      left[best] -= until - now;
      now = until;
      if (left[best] > 0) continue;
      raise(bound, now + tail_[id(best)]);
      left[best] = time(best % 3, of_.stage_at(w, chunk_of(best)));
      ++next[best];
    }
  }

  const searched_pipeline of_;
  int M_;
  zeroed_array<std::int64_t> head_, tail_;
  zeroed_array<int> placed_;        // [kind][stage]
  zeroed_array<std::int64_t> now_;  // of each worker
};

}  // namespace detail

/// A lower bound of the makespan of every table of a pipeline, for its placement, its times and its limits.
constexpr std::int64_t lower_bound_of_tables(const searched_pipeline& of) { return detail::table_bound(of).run(); }

}  // namespace gpipe
