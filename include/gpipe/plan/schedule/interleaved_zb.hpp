#pragma once

#include <gpipe/plan/schedule/contract/action.hpp>
#include <gpipe/plan/schedule/contract/scheduler.hpp>
#include <gpipe/plan/schedule/interleaved.hpp>

namespace gpipe {

/// Interleaved zero bubble: ZB-H1 with `chunks` stages per worker (Qi et al., "Zero Bubble Pipeline Parallelism", 2023,
/// arXiv 2401.10241; PyTorch has it as ScheduleInterleavedZeroBubble). The stages of a worker and their order are
/// as in `interleaved`, with V chunks, K workers and groups of G micro-batches; backward is in two parts, and worker w
/// runs the parameter part w backwards later. With M >= K and a chunk's times F, I and W, W <= F, a worker is idle for
/// (K - 1) (F + I - W): with equal parts for K - 1 of them, as in ZB-V, so 1 / V of ZB-H1's. It holds the inputs of at
/// most (V - 1) G + K chunks: 2 K with two chunks and M a multiple of K, as in ZB-V. With one chunk it is ZB-H1.
///
///     tick      0    1    2    3    4    5    6    7    8    9    10   11   12
///     worker 0  0F0  0F1  2F0  .    2F1  2I0  2W0  2I1  2W1  0I0  0W0  0I1  0W1
///     worker 1  .    1F0  1F1  3F0  3I0  3F1  3I1  3W0  1I0  3W1  1I1  1W0  1W1
struct interleaved_zb {
  int chunks = 2;

  static constexpr bool trains = true, splits = true;

  static constexpr const char* name() { return "interleaved-ZB"; }
  constexpr bool admits(int stages, int micro_batches) const {
    return detail::chunk_order::admits(stages, chunks, micro_batches);
  }
  constexpr int workers(int stages) const { return stages / chunks; }
  constexpr int worker_of(int stages, int stage) const { return stage % workers(stages); }
  constexpr int ticks(int stages, int micro_batches) const {
    int last = 0;
    for (int w = 0; w < workers(stages); ++w) {
      const row timing(*this, stages, micro_batches, w);
      const int end = timing.parameters_tick(timing.order.backward_of(w, micro_batches - 1));
      if (end > last) last = end;
    }
    return last + 1;
  }
  constexpr int in_flight(int stages, int micro_batches, int stage) const {
    const row timing(*this, stages, micro_batches, worker_of(stages, stage));
    return timing.order.in_flight(
        stage, [&](int k) { return timing.forward_tick(k); }, [&](int k) { return timing.parameters_tick(k); });
  }
  constexpr cell at(int stages, int micro_batches, int worker, int tick) const {
    const row timing(*this, stages, micro_batches, worker);
    const int forward = timing.forward_in(tick), input = timing.input_in(tick), parameters = timing.parameters_in(tick);
    if (forward < timing.order.count() && timing.forward_tick(forward) == tick)
      return timing.order.forward(worker, forward);
    if (input < timing.order.count() && timing.input_tick(input) == tick)
      return timing.order.backward(action_kind::backward_input, worker, input);
    if (parameters >= 0 && timing.parameters_tick(parameters) == tick)
      return timing.order.backward(action_kind::backward_parameters, worker, parameters);
    return {};
  }

 private:
  // Forward k is in tick w + k up to the last chunk's first, then K - 1 are in every second tick, then each is in every
  // third. So are the input parts from k = w on, with the parameter part of k - w after each, while forwards last; the
  // remaining parameter parts come last.
  struct row {
    detail::chunk_order order;
    int worker, dense, second, begin, thirds;

    constexpr row(const interleaved_zb& schedule, int stages, int micro_batches, int w)
        : order(stages, schedule.chunks, micro_batches),
          worker(w),
          dense(order.last_chunk()),
          second(dense + order.workers - 1),
          begin(dense + 2 * order.workers - 1 - w),
          thirds(order.count() - dense - order.workers) {}

    constexpr int forward_tick(int k) const {
      return worker + k + (k > dense ? k - dense : 0) + (k > second ? k - second : 0);
    }
    constexpr int input_tick(int k) const {
      const int wider = k - worker < 0 ? 0 : k - worker < thirds ? k - worker : thirds;
      return begin + 2 * k + wider;
    }
    constexpr int parameters_tick(int k) const {
      const int last = order.count() - 1, after = k + worker - last;
      return after > 0 ? input_tick(last) + 1 + after : input_tick(k + worker) + 1;
    }
    constexpr int forward_in(int tick) const {
      const int since = tick - worker;
      if (since <= dense) return since;
      return since <= 2 * second - dense ? (since + dense) / 2 : (since + dense + second) / 3;
    }
    constexpr int input_in(int tick) const {
      const int since = tick - begin;
      if (since <= 2 * worker) return since / 2;
      return since <= 2 * worker + 3 * thirds ? (since + worker) / 3 : (since - thirds) / 2;
    }
    constexpr int parameters_in(int tick) const {
      const int last = order.count() - 1, after = tick - 1 - input_tick(last);
      return (after > 0 ? last + after : input_in(tick - 1)) - worker;
    }
  };
};

static_assert(scheduler<interleaved_zb>);

}  // namespace gpipe
