#pragma once

#include <gpipe/core/numbers/random.hpp>
#include <gpipe/core/zeroed_array.hpp>
#include <gpipe/plan/schedule/contract/action.hpp>
#include <gpipe/tools/search/order_times.hpp>
#include <gpipe/tools/search/pipeline.hpp>
#include <gpipe/tools/search/worker_orders.hpp>

#include <cstdint>

namespace gpipe::detail {

/// The library's random numbers, one after the other.
class random_sequence {
 public:
  constexpr explicit random_sequence(std::uint64_t seed) : key_{.seed = seed} {}
  constexpr std::uint32_t next() {
    if (at_ % 4 == 0) words_ = draw(key_, 0, at_ / 4);
    return words_.word[at_++ % 4];
  }
  constexpr int below(int count) {
    return static_cast<int>((std::uint64_t{next()} * static_cast<unsigned>(count)) >> 32);
  }

 private:
  random_key key_;
  random_words words_{};
  std::uint32_t at_ = 0;
};

/// Improves orders by simulated annealing (Kirkpatrick, Gelatt, Vecchi, 1983). Only a change of a longest path can make
/// a step shorter. So each move takes two neighbours on one, and either moves the later before some of those that it
/// waits for, or the earlier behind some:
///
///     worker 2    ... W3  F7 [I4] ...        I4 begins when F7 ends: it moves before F7, or before W3
///
/// Many orders have the same makespan; the one whose workers end earlier is better.
class order_search {
 public:
  constexpr order_search(const searched_pipeline& of, std::uint64_t seed)
      : of_(of), now_(of), best_(of), times_(of), random_(seed), path_(of.workers * now_.length()) {}

  /// Begins with these orders, which must hold.
  constexpr void start(const worker_orders& from) {
    now_.assign(from);
    best_.assign(from);
    best_makespan_ = times_.run(now_);
    energy_ = energy(best_makespan_);
    find_path();
  }
  /// Makes this number of moves, until the makespan is `enough`. A move that makes a step longer by `heat` is still
  /// taken now and then, at first; less and less later.
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
    int worker, at;
  };

  constexpr std::int64_t energy(std::int64_t makespan) const {
    std::int64_t sum = 0;
    for (int w = 0; w < of_.workers; ++w) sum += times_.end_of(w);
    return makespan + sum / (4 * of_.workers);
  }

  constexpr void move(double heat) {
    const int length = now_.length();
    const step on = path_[random_.below(steps_)];
    std::uint8_t* const row = now_.row(on.worker);
    int from = on.at, to = on.at - 1;
    if (random_.below(2) == 0) {
      for (int distance = random_.below(8); distance > 0 && to > 0; distance -= 1 + random_.below(2)) --to;
    } else {
      from = on.at - 1, to = on.at;
      for (int distance = random_.below(8); distance > 0 && to + 1 < length; distance -= 1 + random_.below(2)) ++to;
    }
    shift(row, from, to);
    if (!row_holds(of_, on.worker, row, length)) return shift(row, to, from);
    const std::int64_t then = times_.run(now_);
    const std::int64_t changed = then < 0 ? -1 : energy(then);
    if (then < 0 || (changed > energy_ && static_cast<double>(changed - energy_) > heat * drawn()))
      return shift(row, to, from);
    energy_ = changed;
    find_path();
    if (then < best_makespan_) best_.assign(now_), best_makespan_ = then;
  }

  /// About -log u of a uniform number u: exact at powers of two, and linear between.
  constexpr double drawn() {
    const std::uint32_t u = random_.next() | 1u;
    int zeros = 0;
    while ((u << zeros) >> 31 == 0) ++zeros;
    return 0.693 * (zeros + 2 - static_cast<double>(u << zeros) / 2147483648.0);
  }

  static constexpr void shift(std::uint8_t* row, int from, int to) {
    const std::uint8_t moved = row[from];
    for (; from > to; --from) row[from] = row[from - 1];
    for (; from < to; ++from) row[from] = row[from + 1];
    row[to] = moved;
  }

  /// A longest path, from its end: lists the actions that begin when the one before them on the worker ends, if that is
  /// of another code.
  constexpr void find_path() {
    steps_ = 0;
    int w = times_.last_worker(), at = now_.length() - 1;
    while (at >= 0) {
      const std::uint8_t* const row = now_.row(w);
      const int code = row[at], s = of_.stage_at(w, chunk_of(code));
      const std::int64_t begin = times_.begin(w, at);
      const int needs = times_.needed(s, times_.micro_batch(w, at), kind_of(code));
      const bool waits = needs >= 0 && times_.arrival(needs) == begin;
      if (at > 0 && times_.end(w, at - 1, row[at - 1]) == begin && (!waits || random_.below(2) == 0)) {
        if (row[at - 1] != code) path_[steps_++] = {w, at};
        --at;
      } else if (waits) {
        w = of_.worker_of(kind_of(code) == action_kind::forward ? s - 1 : s + 1);
        at = times_.made_at(needs);
      } else {
        return;
      }
    }
  }

  const searched_pipeline of_;
  worker_orders now_, best_;
  order_times times_;
  random_sequence random_;
  zeroed_array<step> path_;
  int steps_ = 0;
  std::int64_t energy_ = 0, best_makespan_ = 0;
};

}  // namespace gpipe::detail
