#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include <gpipe/core/config.hpp>
#include <gpipe/plan/schedule/contract/action.hpp>
#include <gpipe/tools/search/pipeline.hpp>
#include <gpipe/tools/search/table_bound.hpp>

namespace gpipe::detail {

/// Finds the shortest table of a small pipeline, by branch and bound.
///
/// A table grows in the order of time (Giffler and Thompson, 1960). Among all actions that could be next, take the one
/// that would end first, at e. The next action of its worker is one that can begin before e:
///
///     worker 2  ... F3 |--I1--|         I1 ends first, at e
///                      |---F4---|       or F4, which begins before e; a later action leaves room for I1 before it
///
/// An earlier end of I1 or of a parameter part harms nothing. An earlier forward takes its bytes earlier, and on a V
/// the other stage may need them. Then there is one more branch: the worker waits until e and begins another code.
///
/// Two partial tables with the same counts differ only in times. One that is nowhere earlier than the other cannot end
/// earlier and is discarded. So is one whose `table_bound` is at least the makespan of the best table so far.
class exact_order {
 public:
  /// Starts from the best known table.
  GPIPE_COLD exact_order(const searched_pipeline& pipeline, const worker_orders& known, std::int64_t makespan)
      : pipeline_(pipeline),
        S_(pipeline.stage_count()),
        M_(pipeline.micro_batches),
        bound_(pipeline),
        orders_(pipeline),
        best_(pipeline),
        makespan_(makespan),
        lengths_(index(pipeline.workers)),
        bytes_(index(pipeline.workers)),
        waiting_(index(pipeline.workers)),
        arrivals_(index(2 * S_ * M_)),
        links_(index(2 * S_)) {
    best_.assign(known);
  }

  /// Tries at most `parts` partial tables. Returns whether it tried all, so that the best table is the shortest.
  GPIPE_COLD bool run(std::int64_t parts) {
    parts_ = parts;
    extend(pipeline_.workers * orders_.length());
    return parts_ >= 0;
  }
  const worker_orders& best() const { return best_; }
  std::int64_t makespan() const { return makespan_; }

 private:
  struct step {
    int worker, code;
    std::int64_t begin;
  };
  struct branch {
    step next;
    std::int64_t bound;
  };
  /// The state that a step changes, except the counts.
  struct saved_state {
    std::int64_t worker_free, link;
    unsigned waiting;
  };

  int codes() const { return 3 * pipeline_.chunks(); }
  std::int64_t& arrival(bool back, int s, int m) { return arrivals_[index((back * S_ + s) * M_ + m)]; }
  searched_stage stage_of(int w, int code) const { return pipeline_.stage(pipeline_.stage_at(w, chunk_of(code))); }
  std::int64_t time(int w, int code) const { return time_of(stage_of(w, code), kind_of(code)); }

  /// When the worker's next action of a code may begin; -1: not after the present part.
  std::int64_t begin_of(int w, int code) {
    const int m = bound_.placed(w, code), s = pipeline_.stage_at(w, chunk_of(code));
    const action_kind kind = kind_of(code);
    if (m == M_ || (waiting_[index(w)] >> code & 1u) != 0) return -1;
    if (kind != action_kind::forward && m == bound_.placed(w, code - 1)) return -1;
    std::int64_t ready = 0;
    if (kind == action_kind::forward) {
      if (bytes_[index(w)] > pipeline_.limit(w) - pipeline_.stage(s).kept) return -1;
      if (s > 0) {
        if (m == bound_.placed(pipeline_.worker_of(s - 1), code_of(kind, pipeline_.chunk_of(s - 1)))) return -1;
        ready = arrival(false, s - 1, m);
      }
    } else if (kind == action_kind::backward_input && s + 1 < S_) {
      if (m == bound_.placed(pipeline_.worker_of(s + 1), code_of(kind, pipeline_.chunk_of(s + 1)))) return -1;
      ready = arrival(true, s + 1, m);
    }
    return (std::max)(ready, bound_.worker_free(w));
  }

  saved_state begin(const step& action) {
    const auto [w, code, begin] = action;
    const int s = pipeline_.stage_at(w, chunk_of(code)), m = bound_.placed(w, code);
    const action_kind kind = kind_of(code);
    saved_state saved{bound_.worker_free(w), 0, waiting_[index(w)]};
    waiting_[index(w)] = 0;
    orders_.row(w)[lengths_[index(w)]++] = static_cast<std::uint8_t>(code);
    bytes_[index(w)] += taken_by(pipeline_.stage(s), kind);
    bound_.place(w, code, begin);
    if (kind == action_kind::backward_parameters) return saved;
    const bool back = kind == action_kind::backward_input;
    const int target = back ? s - 1 : s + 1;
    std::int64_t arrived = bound_.worker_free(w);
    if (target >= 0 && target < S_) {
      std::int64_t& link = links_[index(2 * s + back)];
      saved.link = link;
      if (const std::int64_t takes = pipeline_.transfer(back ? target : s, back); takes > 0)
        arrived = link = (std::max)(link, arrived) + takes;
    }
    arrival(back, s, m) = arrived;
    return saved;
  }
  void take_back(const step& action, const saved_state& saved) {
    const auto [w, code, begin] = action;
    const int s = pipeline_.stage_at(w, chunk_of(code));
    const action_kind kind = kind_of(code);
    waiting_[index(w)] = saved.waiting;
    --lengths_[index(w)];
    bytes_[index(w)] -= taken_by(pipeline_.stage(s), kind);
    bound_.take_back(w, code, saved.worker_free);
    if (kind != action_kind::backward_parameters)
      links_[index(2 * s + (kind == action_kind::backward_input))] = saved.link;
  }

  /// Whether the worker has room for a forward and for all forwards of its other stage that could precede it.
  bool has_room(int w, int code) const {
    if (pipeline_.chunks() == 1) return true;
    const int other_code = 3 - code, most = code == 0 ? bound_.placed(w, 0) : M_;
    const std::int64_t left = pipeline_.limit(w) - bytes_[index(w)] - stage_of(w, code).kept;
    const std::int64_t other_kept = stage_of(w, other_code).kept;
    const int count = most - bound_.placed(w, other_code);
    return count == 0 || other_kept == 0 || left / other_kept >= count;
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
    for (int w = 0; w < pipeline_.workers; ++w) {
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
      times_.push_back((std::max)(next, bound_.worker_free(w)));
    }
    for (int s = 0; s < S_; ++s)
      for (const bool back : {false, true}) {
        const int target = back ? s - 1 : s + 1;
        if (target < 0 || target == S_) continue;
        const int code = code_of(back ? action_kind::backward_input : action_kind::forward, pipeline_.chunk_of(s));
        const int target_code = code_of(kind_of(code), pipeline_.chunk_of(target)),
                  target_worker = pipeline_.worker_of(target);
        const int made = bound_.placed(pipeline_.worker_of(s), code);
        const std::int64_t begins = times_[index(target_worker)];
        for (int m = bound_.placed(target_worker, target_code); m < made; ++m)
          times_.push_back((std::max)(arrival(back, s, m), begins));
        if (pipeline_.transfer(back ? target : s, back) > 0) times_.push_back(links_[index(2 * s + back)]);
      }
    std::int32_t& newest = newest_part_.try_emplace(hash, -1).first->second;
    const auto K = static_cast<std::ptrdiff_t>(key_.size());
    for (std::int32_t part = newest; part >= 0; part = older_part_[index(part)]) {
      const auto it = kept_.begin() + begins_[index(part)];
      if (std::equal(key_.begin(), key_.end(), it) &&
          std::equal(times_.begin(), times_.end(), it + K,
                     [](auto present, auto earlier) { return earlier <= present; }))
        return true;
    }
    older_part_.push_back(newest);
    begins_.push_back(static_cast<std::ptrdiff_t>(kept_.size()));
    newest = static_cast<std::int32_t>(older_part_.size() - 1);
    kept_.insert(kept_.end(), key_.begin(), key_.end());
    kept_.insert(kept_.end(), times_.begin(), times_.end());
    return false;
  }

  void extend(int left) {
    if (--parts_ < 0) return;
    if (left == 0) {
      std::int64_t last = 0;
      for (int w = 0; w < pipeline_.workers; ++w) last = (std::max)(last, bound_.worker_free(w));
      if (last < makespan_) makespan_ = last, best_.assign(orders_);
      return;
    }
    step first{-1, 0, 0};
    std::int64_t end = 0;
    const auto forward = [](int code) { return code % 3 == 0; };
    for (int w = 0; w < pipeline_.workers; ++w)
      for (int c = 0; c < codes(); ++c)
        if (const std::int64_t begin = begin_of(w, c); begin >= 0) {
          const std::int64_t action_end = begin + time(w, c);
          const bool sooner =
              first.worker == -1 || action_end < end || (action_end == end && forward(first.code) && !forward(c));
          if (sooner) first = {w, c, begin}, end = action_end;
        }
    if (first.worker == -1) return;  // forwards have taken all bytes
    const int w = first.worker;
    branch branches[7];
    int count = 0;
    unsigned tried = 0;
    for (const int c : {4, 1, 3, 0, 5, 2}) {
      if (c >= codes()) continue;
      const step next{w, c, begin_of(w, c)};
      if (next.begin < 0 || (next.begin >= end && c != first.code)) continue;
      tried |= 1u << c;
      const saved_state saved = begin(next);
      branches[count++] = {next, bound_of_part()};
      take_back(next, saved);
    }
    const std::int64_t free_time = bound_.worker_free(w);
    const unsigned waits = waiting_[index(w)];
    const bool may_wait = forward(first.code) && !has_room(w, first.code);
    const auto wait = [&] { waiting_[index(w)] = waits | tried, bound_.wait(w, end); };
    const auto go_on = [&] { waiting_[index(w)] = waits, bound_.wait(w, free_time); };
    if (may_wait) {
      wait();
      branches[count++] = {{-1, 0, 0}, bound_of_part()};
      go_on();
    }
    std::stable_sort(branches, branches + count, [](const branch& a, const branch& b) { return a.bound < b.bound; });
    for (int i = 0; i < count && parts_ >= 0; ++i) {
      if (branches[i].bound >= makespan_) continue;
      if (branches[i].next.worker == -1) {
        wait();
        extend(left);
        go_on();
      } else {
        const saved_state saved = begin(branches[i].next);
        extend(left - 1);
        take_back(branches[i].next, saved);
      }
    }
  }

  const searched_pipeline pipeline_;
  int S_, M_;
  table_bound bound_;
  worker_orders orders_, best_;
  std::int64_t makespan_, parts_ = 0;
  std::vector<int> lengths_;
  std::vector<std::int64_t> bytes_;
  std::vector<unsigned> waiting_;  // per worker, the codes that it does not begin next
  std::vector<std::int64_t> arrivals_, links_;
  // The partial tables that were tried, in lists by the hash of their counts, newest first.
  std::unordered_map<std::uint64_t, std::int32_t> newest_part_;
  std::vector<std::int32_t> older_part_;
  std::vector<std::ptrdiff_t> begins_;
  std::vector<std::int64_t> kept_, key_, times_;
};

}  // namespace gpipe::detail
