#pragma once

#include <gpipe/core/zeroed_array.hpp>
#include <gpipe/plan/schedule/contract/action.hpp>
#include <gpipe/tools/search/pipeline.hpp>
#include <gpipe/tools/search/worker_orders.hpp>

#include <cstdint>

namespace gpipe::detail {

/// The times of orders, each worker as soon as it can. A link transfers one micro-batch after the other.
class order_times {
 public:
  constexpr explicit order_times(const searched_pipeline& of)
      : of_(of),
        values_(of.stage_count() * of.micro_batches),
        begins_(of.workers * 3 * of.chunks() * of.micro_batches),
        arrivals_(2 * values_),
        numbers_(of.workers * 3 * of.chunks() * of.micro_batches),
        made_at_(2 * values_),
        free_(2 * of.stage_count()),
        now_(of.workers),
        next_(of.workers),
        awaited_(of.workers),
        stack_(of.workers),
        done_(6 * of.workers),
        parts_(6 * of.workers) {
    for (int w = 0; w < of.workers; ++w)
      for (int c = 0; c < 3 * of.chunks(); ++c) {
        const int s = of.stage_at(w, chunk_of(c));
        part& its = parts_[6 * w + c];
        its.time = time_of(of.stage(s), kind_of(c));
        its.needs = needed(s, 0, kind_of(c));
        if (kind_of(c) == action_kind::backward_parameters) continue;
        const bool back = kind_of(c) == action_kind::backward_input;
        const int to = back ? s - 1 : s + 1;
        its.makes = value(back, s, 0);
        its.link = 2 * s + back;
        if (to < 0 || to == of.stage_count()) continue;
        its.transfer = of.transfer(back ? to : s, back);
        its.peer = of.worker_of(to);
      }
  }

  /// The makespan; -1: the workers wait for each other in a circle.
  constexpr std::int64_t run(const worker_orders& orders) {
    const int K = of_.workers, length = orders.length();
    for (int i = 0; i < 2 * values_; ++i) arrivals_[i] = -1;
    for (int i = 0; i < 2 * of_.stage_count(); ++i) free_[i] = 0;
    for (int i = 0; i < 6 * K; ++i) done_[i] = 0;
    int ready = 0, ended = 0;
    for (int w = 0; w < K; ++w) now_[w] = 0, next_[w] = 0, awaited_[w] = -1, stack_[ready++] = K - 1 - w;
    while (ready > 0) {
      const int w = stack_[--ready];
      const std::uint8_t* row = orders.row(w);
      const part* const parts = parts_.data() + 6 * w;
      int* done = done_.data() + 6 * w;
      std::int64_t now = now_[w];
      int i = next_[w];
      for (; i < length; ++i) {
        const int code = row[i], m = done[code];
        const part& its = parts[code];
        if (its.needs >= 0) {
          const std::int64_t arrival = arrivals_[its.needs + m];
          if (arrival < 0) {
            awaited_[w] = its.needs + m;
            break;
          }
          if (arrival > now) now = arrival;
        }
        begins_[w * length + i] = now;
        numbers_[w * length + i] = m;
        now += its.time;
        ++done[code];
        if (its.makes < 0) continue;
        const int made = its.makes + m;
        made_at_[made] = i;
        std::int64_t arrived = now;
        if (its.transfer > 0) {
          std::int64_t& link = free_[its.link];
          if (link < now) link = now;
          arrived = link += its.transfer;
        }
        if (its.peer >= 0 && awaited_[its.peer] == made) {
          awaited_[its.peer] = -1;
          stack_[ready++] = its.peer;
        }
        arrivals_[made] = arrived;
      }
      next_[w] = i;
      now_[w] = now;
      if (i == length) ++ended;
    }
    if (ended < K) return -1;
    std::int64_t last = 0;
    for (int w = 0; w < K; ++w)
      if (now_[w] > last) last = now_[w], last_ = w;
    return last;
  }

  // Results of the last run, for the `at`-th action of a worker.
  constexpr std::int64_t begin(int worker, int at) const { return begins_[worker * length() + at]; }
  constexpr std::int64_t end(int worker, int at, int code) const {
    return begin(worker, at) + parts_[6 * worker + code].time;
  }
  constexpr int micro_batch(int worker, int at) const { return numbers_[worker * length() + at]; }
  constexpr std::int64_t end_of(int worker) const { return now_[worker]; }
  constexpr int last_worker() const { return last_; }
  /// The number of the value that an action waits for; -1: none of another stage.
  constexpr int needed(int s, int m, action_kind kind) const {
    if (kind == action_kind::forward && s > 0) return value(false, s - 1, m);
    if (kind == action_kind::backward_input && s + 1 < of_.stage_count()) return value(true, s + 1, m);
    return -1;
  }
  constexpr std::int64_t arrival(int value) const { return arrivals_[value]; }
  /// The place of the action that makes a value in its worker's row.
  constexpr int made_at(int value) const { return made_at_[value]; }

 private:
  /// All that a worker's actions of a code have in common; the values are those of micro-batch 0.
  struct part {
    std::int64_t time = 0, transfer = 0;
    int needs = -1, makes = -1;  ///< values; -1: none
    int link = 0, peer = -1;     ///< over which the value goes, and to whom; -1: to no stage
  };

  constexpr int length() const { return 3 * of_.chunks() * of_.micro_batches; }
  constexpr int value(bool back, int s, int m) const { return back * values_ + s * of_.micro_batches + m; }

  const searched_pipeline of_;
  int values_;
  zeroed_array<std::int64_t> begins_, arrivals_;
  zeroed_array<int> numbers_, made_at_;
  zeroed_array<std::int64_t> free_, now_;
  zeroed_array<int> next_, awaited_, stack_, done_;
  zeroed_array<part> parts_;  // [worker][code]
  int last_ = 0;
};

}  // namespace gpipe::detail
