#pragma once

#include <gpipe/core/numbers/random.hpp>
#include <gpipe/core/zeroed_array.hpp>
#include <gpipe/plan/schedule/contract/action.hpp>
#include <gpipe/tools/search/order_times.hpp>
#include <gpipe/tools/search/pipeline.hpp>
#include <gpipe/tools/search/worker_orders.hpp>

#include <cstdint>

namespace gpipe::detail {

/// The library's random numbers as a sequence.
class random_sequence {
 public:
  constexpr explicit random_sequence(std::uint64_t seed) : key_{.seed = seed} {}
  constexpr std::uint32_t next() {
    if (position_ % 4 == 0) words_ = draw(key_, 0, position_ / 4);
    return words_.word[position_++ % 4];
  }
  constexpr int below(int count) {
    return static_cast<int>((std::uint64_t{next()} * static_cast<unsigned>(count)) >> 32);
  }

 private:
  random_key key_;
  random_words words_{};
  std::uint32_t position_ = 0;
};

// change: the schedule search; a move
/// Improves orders by simulated annealing (Kirkpatrick, Gelatt, Vecchi, 1983). Only a change of a longest path can make
/// a step shorter. So each move takes two neighbours on such a path, and moves either the later one before some of the
/// actions that it waits for, or the earlier one after some:
///
///     worker 2    ... W3  F7 [I4] ...        I4 begins when F7 ends: it moves before F7, or before W3
///
/// Among orders with the same makespan, the one whose workers end earlier is better.
class order_search {
 public:
  constexpr order_search(const searched_pipeline& pipeline, std::uint64_t seed)
      : pipeline_(pipeline),
        current_(pipeline),
        best_(pipeline),
        times_(pipeline),
        random_(seed),
        path_(pipeline.workers * current_.length()) {}

  /// Starts from these orders, which must be valid.
  constexpr void start(const worker_orders& orders) {
    current_.assign(orders);
    best_.assign(orders);
    best_makespan_ = times_.run(current_);
    energy_ = energy(best_makespan_);
    find_path();
  }
  /// Makes at most this number of moves, until the makespan is `enough`. At first, a move that makes a step longer by
  /// `heat` is sometimes accepted; later less and less often.
  constexpr void run(int moves, std::int64_t enough, double heat) {
    for (int k = 0; k < moves && best_makespan_ > enough && steps_ > 0; ++k) {
      const double left = static_cast<double>(moves - k) / moves;
      move(heat * left * left);
    }
  }
  constexpr const worker_orders& best() const { return best_; }
  constexpr std::int64_t makespan() const { return best_makespan_; }

 private:
  struct step {
    int worker, position;
  };

  constexpr std::int64_t energy(std::int64_t makespan) const {
    std::int64_t sum = 0;
    for (int w = 0; w < pipeline_.workers; ++w) sum += times_.end_of(w);
    return makespan + sum / (4 * pipeline_.workers);
  }

  constexpr void move(double heat) {
    const int length = current_.length();
    const step chosen = path_[random_.below(steps_)];
    std::uint8_t* const row = current_.row(chosen.worker);
    int source = chosen.position, target = chosen.position - 1;
    if (random_.below(2) == 0) {
      for (int distance = random_.below(8); distance > 0 && target > 0; distance -= 1 + random_.below(2)) --target;
    } else {
      source = chosen.position - 1, target = chosen.position;
      for (int distance = random_.below(8); distance > 0 && target + 1 < length; distance -= 1 + random_.below(2))
        ++target;
    }
    shift(row, source, target);
    if (!row_holds(pipeline_, chosen.worker, row, length)) return shift(row, target, source);
    const std::int64_t makespan = times_.run(current_);
    const std::int64_t new_energy = makespan < 0 ? -1 : energy(makespan);
    if (makespan < 0 || (new_energy > energy_ && static_cast<double>(new_energy - energy_) > heat * drawn()))
      return shift(row, target, source);
    energy_ = new_energy;
    find_path();
    if (makespan < best_makespan_) best_.assign(current_), best_makespan_ = makespan;
  }

  /// About -log u of a uniform number u: exact at powers of two, and linear between.
  constexpr double drawn() {
    const std::uint32_t u = random_.next() | 1u;
    int zeros = 0;
    while ((u << zeros) >> 31 == 0) ++zeros;
    return 0.693 * (zeros + 2 - static_cast<double>(u << zeros) / 2147483648.0);
  }

  static constexpr void shift(std::uint8_t* row, int source, int target) {
    const std::uint8_t moved = row[source];
    for (; source > target; --source) row[source] = row[source - 1];
    for (; source < target; ++source) row[source] = row[source + 1];
    row[target] = moved;
  }

  /// Follows a longest path from its end, and lists the actions that begin when the previous one of their worker ends,
  /// if that has another code.
  constexpr void find_path() {
    steps_ = 0;
    int w = times_.last_worker(), position = current_.length() - 1;
    while (position >= 0) {
      const std::uint8_t* const row = current_.row(w);
      const int code = row[position], s = pipeline_.stage_at(w, chunk_of(code));
      const std::int64_t begin = times_.begin(w, position);
      const int needs = times_.needed(s, times_.micro_batch(w, position), kind_of(code));
      const bool waits = needs >= 0 && times_.arrival(needs) == begin;
      if (position > 0 && times_.end(w, position - 1, row[position - 1]) == begin &&
          (!waits || random_.below(2) == 0)) {
        if (row[position - 1] != code) path_[steps_++] = {w, position};
        --position;
      } else if (waits) {
        w = pipeline_.worker_of(kind_of(code) == action_kind::forward ? s - 1 : s + 1);
        position = times_.made_at(needs);
      } else {
        return;
      }
    }
  }

  const searched_pipeline pipeline_;
  worker_orders current_, best_;
  order_times times_;
  random_sequence random_;
  zeroed_array<step> path_;
  int steps_ = 0;
  std::int64_t energy_ = 0, best_makespan_ = 0;
};

}  // namespace gpipe::detail
