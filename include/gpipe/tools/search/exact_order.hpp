#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include <gpipe/core/config.hpp>
#include <gpipe/core/index.hpp>
#include <gpipe/plan/schedule/contract/action.hpp>
#include <gpipe/tools/search/pipeline.hpp>
#include <gpipe/tools/search/table_bound.hpp>
#include <gpipe/tools/search/worker_orders.hpp>

namespace gpipe::detail {

/// Finds the shortest table of a small pipeline, by branch and bound.
///
/// A table grows in the order of time (Giffler and Thompson, 1960). Among all actions that could be next, take the one
/// that would end first, at e. Its worker begins next one of those that it can begin before e:
///
///     worker 2  ... F3 |--I1--|         I1 ends first, at e
///                      |---F4---|       or F4, which begins before e; what begins later leaves room for I1 before it
///
/// An earlier end of I1 or of a parameter part harms nothing. An earlier forward takes its bytes earlier, and on a V
/// the other stage may need them. Then there is one more way: the worker waits until e, and begins another code.
///
/// Two parts of tables with the same counts differ only in times. If none of the times of one is earlier, it cannot end
/// earlier, and it is left. So is one whose `table_bound` is as long as the best table so far.
class exact_order {
 public:
  /// Begins with the best table that is known.
  GPIPE_COLD exact_order(const searched_pipeline& of, const worker_orders& known, std::int64_t makespan)
      : of_(of),
        S_(of.stage_count()),
        M_(of.micro_batches),
        bound_(of),
        orders_(of),
        best_(of),
        makespan_(makespan),
        lengths_(index(of.workers)),
        bytes_(index(of.workers)),
        waiting_(index(of.workers)),
        arrivals_(index(2 * S_ * M_)),
        links_(index(2 * S_)) {
    best_.assign(known);
  }

  /// Tries at most this number of parts of tables. Returns whether it tried all, so that the best is the shortest.
  GPIPE_COLD bool run(std::int64_t parts) {
    parts_ = parts;
    extend(of_.workers * orders_.length());
    return parts_ >= 0;
  }
  const worker_orders& best() const { return best_; }
  std::int64_t makespan() const { return makespan_; }

 private:
  struct step {
    int worker, code;
    std::int64_t begin;
  };
  struct way {
    step next;
    std::int64_t bound;
  };
  /// The state that a step changes, beside counts.
  struct before {
    std::int64_t now, link;
    unsigned waiting;
  };

  int codes() const { return 3 * of_.chunks(); }
  std::int64_t& arrival(bool back, int s, int m) { return arrivals_[index((back * S_ + s) * M_ + m)]; }
  searched_stage stage_of(int w, int code) const { return of_.stage(of_.stage_at(w, chunk_of(code))); }
  std::int64_t time(int w, int code) const { return time_of(stage_of(w, code), kind_of(code)); }

  /// When the worker's next action of a code may begin; -1: not after these.
  std::int64_t begin_of(int w, int code) {
    const int m = bound_.placed(w, code), s = of_.stage_at(w, chunk_of(code));
    const action_kind kind = kind_of(code);
    if (m == M_ || (waiting_[index(w)] >> code & 1u) != 0) return -1;
    if (kind != action_kind::forward && m == bound_.placed(w, code - 1)) return -1;
    std::int64_t needs = 0;
    if (kind == action_kind::forward) {
      if (bytes_[index(w)] > of_.limit(w) - of_.stage(s).kept) return -1;
      if (s > 0) {
        if (m == bound_.placed(of_.worker_of(s - 1), code_of(kind, of_.chunk_of(s - 1)))) return -1;
        needs = arrival(false, s - 1, m);
      }
    } else if (kind == action_kind::backward_input && s + 1 < S_) {
      if (m == bound_.placed(of_.worker_of(s + 1), code_of(kind, of_.chunk_of(s + 1)))) return -1;
      needs = arrival(true, s + 1, m);
    }
    return (std::max)(needs, bound_.now(w));
  }

  before begin(const step& its) {
    const auto [w, code, begin] = its;
    const int s = of_.stage_at(w, chunk_of(code)), m = bound_.placed(w, code);
    const action_kind kind = kind_of(code);
    before was{bound_.now(w), 0, waiting_[index(w)]};
    waiting_[index(w)] = 0;
    orders_.row(w)[lengths_[index(w)]++] = static_cast<std::uint8_t>(code);
    bytes_[index(w)] += taken_by(of_.stage(s), kind);
    bound_.place(w, code, begin);
    if (kind == action_kind::backward_parameters) return was;
    const bool back = kind == action_kind::backward_input;
    const int to = back ? s - 1 : s + 1;
    std::int64_t arrived = bound_.now(w);
    if (to >= 0 && to < S_) {
      std::int64_t& link = links_[index(2 * s + back)];
      was.link = link;
      if (const std::int64_t takes = of_.transfer(back ? to : s, back); takes > 0)
        arrived = link = (std::max)(link, arrived) + takes;
    }
    arrival(back, s, m) = arrived;
    return was;
  }
  void take_back(const step& its, const before& was) {
    const auto [w, code, begin] = its;
    const int s = of_.stage_at(w, chunk_of(code));
    const action_kind kind = kind_of(code);
    waiting_[index(w)] = was.waiting;
    --lengths_[index(w)];
    bytes_[index(w)] -= taken_by(of_.stage(s), kind);
    bound_.take_back(w, code, was.now);
    if (kind != action_kind::backward_parameters)
      links_[index(2 * s + (kind == action_kind::backward_input))] = was.link;
  }

  /// Whether the worker has room for a forward and for all forwards of its other stage that could come before it.
  bool has_room(int w, int code) const {
    if (of_.chunks() == 1) return true;
    const int other = 3 - code, most = code == 0 ? bound_.placed(w, 0) : M_;
    const std::int64_t left = of_.limit(w) - bytes_[index(w)] - stage_of(w, code).kept;
    const std::int64_t each = stage_of(w, other).kept;
    const int count = most - bound_.placed(w, other);
    return count == 0 || each == 0 || left / each >= count;
  }

  /// The bound of the present part, at least `makespan_` if another part is as good.
  std::int64_t bound_of_part() {
    const std::int64_t bound = bound_.run();
    return bound < makespan_ && left_before() ? makespan_ : bound;
  }

  /// Looks for a part with the same counts and no later time; if there is none, keeps this one.
  bool left_before() {
    key_.clear();
    times_.clear();
    std::uint64_t hash = 0;
    const auto add = [&](std::uint64_t word) {
      key_.push_back(static_cast<std::int64_t>(word));
      hash = (hash ^ word) * 0x9E3779B97F4A7C15u;
      hash ^= hash >> 29;
    };
    for (int w = 0; w < of_.workers; ++w) {
      std::uint64_t word = waiting_[index(w)];
      std::int64_t next = -1;  // a lower bound of the begin of the worker's next action
      for (int c = 0; c < codes(); ++c) {
        const int m = bound_.placed(w, c);
        word = word << 9 | static_cast<unsigned>(m);
        if (m == M_) continue;
        const std::int64_t head = bound_.head_of_next(w, c);
        if (next < 0 || head < next) next = head;
      }
      add(word);
      times_.push_back((std::max)(next, bound_.now(w)));
    }
    for (int s = 0; s < S_; ++s)
      for (const bool back : {false, true}) {
        const int to = back ? s - 1 : s + 1;
        if (to < 0 || to == S_) continue;
        const int code = code_of(back ? action_kind::backward_input : action_kind::forward, of_.chunk_of(s));
        const int code_there = code_of(kind_of(code), of_.chunk_of(to)), there = of_.worker_of(to);
        const int made = bound_.placed(of_.worker_of(s), code);
        const std::int64_t begins = times_[index(there)];
        for (int m = bound_.placed(there, code_there); m < made; ++m)
          times_.push_back((std::max)(arrival(back, s, m), begins));
        if (of_.transfer(back ? to : s, back) > 0) times_.push_back(links_[index(2 * s + back)]);
      }
    std::int32_t& first = parts_of_.try_emplace(hash, -1).first->second;
    const auto K = static_cast<std::ptrdiff_t>(key_.size());
    for (std::int32_t at = first; at >= 0; at = next_of_[index(at)]) {
      const auto it = kept_.begin() + begins_[index(at)];
      if (std::equal(key_.begin(), key_.end(), it) &&
          std::equal(times_.begin(), times_.end(), it + K, [](auto now, auto then) { return then <= now; }))
        return true;
    }
    next_of_.push_back(first);
    begins_.push_back(static_cast<std::ptrdiff_t>(kept_.size()));
    first = static_cast<std::int32_t>(next_of_.size() - 1);
    kept_.insert(kept_.end(), key_.begin(), key_.end());
    kept_.insert(kept_.end(), times_.begin(), times_.end());
    return false;
  }

  void extend(int left) {
    if (--parts_ < 0) return;
    if (left == 0) {
      std::int64_t last = 0;
      for (int w = 0; w < of_.workers; ++w) last = (std::max)(last, bound_.now(w));
      if (last < makespan_) makespan_ = last, best_.assign(orders_);
      return;
    }
    step first{-1, 0, 0};
    std::int64_t end = 0;
    const auto forward = [](int code) { return code % 3 == 0; };
    for (int w = 0; w < of_.workers; ++w)
      for (int c = 0; c < codes(); ++c)
        if (const std::int64_t begin = begin_of(w, c); begin >= 0) {
          const std::int64_t its = begin + time(w, c);
          const bool sooner = first.worker == -1 || its < end || (its == end && forward(first.code) && !forward(c));
          if (sooner) first = {w, c, begin}, end = its;
        }
    if (first.worker == -1) return;  // forwards have taken all bytes
    const int w = first.worker;
    way ways[7];
    int count = 0;
    unsigned tried = 0;
    for (const int c : {4, 1, 3, 0, 5, 2}) {
      if (c >= codes()) continue;
      const step next{w, c, begin_of(w, c)};
      if (next.begin < 0 || (next.begin >= end && c != first.code)) continue;
      tried |= 1u << c;
      const before was = begin(next);
      ways[count++] = {next, bound_of_part()};
      take_back(next, was);
    }
    const std::int64_t now = bound_.now(w);
    const unsigned waits = waiting_[index(w)];
    const bool may_wait = forward(first.code) && !has_room(w, first.code);
    const auto wait = [&] { waiting_[index(w)] = waits | tried, bound_.wait(w, end); };
    const auto go_on = [&] { waiting_[index(w)] = waits, bound_.wait(w, now); };
    if (may_wait) {
      wait();
      ways[count++] = {{-1, 0, 0}, bound_of_part()};
      go_on();
    }
    std::stable_sort(ways, ways + count, [](const way& a, const way& b) { return a.bound < b.bound; });
    for (int i = 0; i < count && parts_ >= 0; ++i) {
      if (ways[i].bound >= makespan_) continue;
      if (ways[i].next.worker == -1) {
        wait();
        extend(left);
        go_on();
      } else {
        const before was = begin(ways[i].next);
        extend(left - 1);
        take_back(ways[i].next, was);
      }
    }
  }

  const searched_pipeline of_;
  int S_, M_;
  table_bound bound_;
  worker_orders orders_, best_;
  std::int64_t makespan_, parts_ = 0;
  std::vector<int> lengths_;
  std::vector<std::int64_t> bytes_;
  std::vector<unsigned> waiting_;  // codes that a worker does not begin next
  std::vector<std::int64_t> arrivals_, links_;
  // The parts of tables that were tried, in lists by the hash of their counts.
  std::unordered_map<std::uint64_t, std::int32_t> parts_of_;
  std::vector<std::int32_t> next_of_;
  std::vector<std::ptrdiff_t> begins_;
  std::vector<std::int64_t> kept_, key_, times_;
};

}  // namespace gpipe::detail
