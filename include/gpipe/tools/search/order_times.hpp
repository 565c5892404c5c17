#pragma once

#include <gpipe/core/zeroed_array.hpp>
#include <gpipe/plan/schedule/contract/action.hpp>
#include <gpipe/tools/search/pipeline.hpp>
#include <gpipe/tools/search/worker_orders.hpp>

#include <cstdint>

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

}  // namespace gpipe::detail
