#pragma once

#include <cstdint>

#include <gpipe/core/numbers/random.hpp>
#include <gpipe/core/zeroed_array.hpp>
#include <gpipe/plan/schedule/contract/action.hpp>
#include <gpipe/tools/search/pipeline.hpp>

namespace gpipe::detail {

/// The times of orders if each worker begins every action as soon as it can. A link transfers one micro-batch at a
/// time.
class order_times {
 public:
  constexpr explicit order_times(const searched_pipeline& pipeline)
      : pipeline_(pipeline),
        values_(pipeline.stage_count() * pipeline.micro_batches),
        begins_(pipeline.workers * 3 * pipeline.chunks() * pipeline.micro_batches),
        arrivals_(2 * values_),
        numbers_(pipeline.workers * 3 * pipeline.chunks() * pipeline.micro_batches),
        made_at_(2 * values_),
        link_free_(2 * pipeline.stage_count()),
        worker_free_(pipeline.workers),
        next_(pipeline.workers),
        awaited_(pipeline.workers),
        stack_(pipeline.workers),
        done_(6 * pipeline.workers),
        actions_(6 * pipeline.workers) {
    for (int w = 0; w < pipeline.workers; ++w)
      for (int c = 0; c < 3 * pipeline.chunks(); ++c) {
        const int s = pipeline.stage_at(w, chunk_of(c));
        action_properties& action = actions_[6 * w + c];
        action.time = time_of(pipeline.stage(s), kind_of(c));
        action.needs = needed(s, 0, kind_of(c));
        if (kind_of(c) == action_kind::backward_parameters) continue;
        const bool back = kind_of(c) == action_kind::backward_input;
        const int target = back ? s - 1 : s + 1;
        action.makes = value(back, s, 0);
        action.link = 2 * s + back;
        if (target < 0 || target == pipeline.stage_count()) continue;
        action.transfer = pipeline.transfer(back ? target : s, back);
        action.peer = pipeline.worker_of(target);
      }
  }

  /// The makespan; -1: the workers wait for each other in a cycle.
  constexpr std::int64_t run(const worker_orders& orders) {
    const int workers = pipeline_.workers, length = orders.length();
    for (int i = 0; i < 2 * values_; ++i) arrivals_[i] = -1;
    for (int i = 0; i < 2 * pipeline_.stage_count(); ++i) link_free_[i] = 0;
    for (int i = 0; i < 6 * workers; ++i) done_[i] = 0;
    int ready = 0, ended = 0;
    for (int w = 0; w < workers; ++w)
      worker_free_[w] = 0, next_[w] = 0, awaited_[w] = -1, stack_[ready++] = workers - 1 - w;
    while (ready > 0) {
      const int w = stack_[--ready];
      const std::uint8_t* row = orders.row(w);
      const action_properties* const actions = actions_.data() + 6 * w;
      int* done = done_.data() + 6 * w;
      std::int64_t clock = worker_free_[w];
      int i = next_[w];
      for (; i < length; ++i) {
        const int code = row[i], m = done[code];
        const action_properties& action = actions[code];
        if (action.needs >= 0) {
          const std::int64_t arrival = arrivals_[action.needs + m];
          if (arrival < 0) {
            awaited_[w] = action.needs + m;
            break;
          }
          if (arrival > clock) clock = arrival;
        }
        begins_[w * length + i] = clock;
        numbers_[w * length + i] = m;
        clock += action.time;
        ++done[code];
        if (action.makes < 0) continue;
        const int made = action.makes + m;
        made_at_[made] = i;
        std::int64_t arrived = clock;
        if (action.transfer > 0) {
          std::int64_t& link = link_free_[action.link];
          if (link < clock) link = clock;
          arrived = link += action.transfer;
        }
        if (action.peer >= 0 && awaited_[action.peer] == made) {
          awaited_[action.peer] = -1;
          stack_[ready++] = action.peer;
        }
        arrivals_[made] = arrived;
      }
      next_[w] = i;
      worker_free_[w] = clock;
      if (i == length) ++ended;
    }
    if (ended < workers) return -1;
    std::int64_t last = 0;
    for (int w = 0; w < workers; ++w)
      if (worker_free_[w] > last) last = worker_free_[w], last_ = w;
    return last;
  }

  // Results of the last run, for the action at a position of a worker's row.
  constexpr std::int64_t begin(int worker, int position) const { return begins_[worker * length() + position]; }
  constexpr std::int64_t end(int worker, int position, int code) const {
    return begin(worker, position) + actions_[6 * worker + code].time;
  }
  constexpr int micro_batch(int worker, int position) const { return numbers_[worker * length() + position]; }
  constexpr std::int64_t end_of(int worker) const { return worker_free_[worker]; }
  constexpr int last_worker() const { return last_; }
  /// The number of the value that an action waits for; -1: none of another stage.
  constexpr int needed(int s, int m, action_kind kind) const {
    if (kind == action_kind::forward && s > 0) return value(false, s - 1, m);
    if (kind == action_kind::backward_input && s + 1 < pipeline_.stage_count()) return value(true, s + 1, m);
    return -1;
  }
  constexpr std::int64_t arrival(int value) const { return arrivals_[value]; }
  /// The position, in its worker's row, of the action that makes a value.
  constexpr int made_at(int value) const { return made_at_[value]; }

 private:
  /// The common properties of a worker's actions of one code. The values are for micro-batch 0.
  struct action_properties {
    std::int64_t time = 0, transfer = 0;
    int needs = -1, makes = -1;  ///< values; -1: none
    int link = 0, peer = -1;     ///< the value's link, and the worker that receives it; -1: none
  };

  constexpr int length() const { return 3 * pipeline_.chunks() * pipeline_.micro_batches; }
  constexpr int value(bool back, int s, int m) const { return back * values_ + s * pipeline_.micro_batches + m; }

  const searched_pipeline pipeline_;
  int values_;
  zeroed_array<std::int64_t> begins_, arrivals_;
  zeroed_array<int> numbers_, made_at_;
  zeroed_array<std::int64_t> link_free_, worker_free_;
  zeroed_array<int> next_, awaited_, stack_, done_;
  zeroed_array<action_properties> actions_;  // [worker][code]
  int last_ = 0;
};

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
