#pragma once

#include <bit>

#include <gpipe/plan/schedule/contract/action.hpp>

namespace gpipe::detail {

/// Worker w of K has stages w and S - 1 - w, so that micro-batches go down and up a V, and the loss is on worker 0.
/// Backward is in two parts.
///
///     worker 0   stage 0      stage 3        S = 4, K = 2
///     worker 1      stage 1  stage 2
struct v_workers {
  static constexpr bool trains = true, splits = true;

  static constexpr bool admits(int stages, int micro_batches) {
    return stages >= 2 && stages % 2 == 0 && micro_batches >= 1;
  }
  static constexpr int workers(int stages) { return stages / 2; }
  static constexpr int worker_of(int stages, int stage) { return stage < stages / 2 ? stage : stages - 1 - stage; }
};

/// The common part of schedules on such workers whose step takes 6 M + K - 1 ticks; worker w begins at tick w.
///
/// With fewer than `Schedule::min_micro_batches(stages)`, the ticks of the missing ones are idle.
/// `Schedule::nth(stages, M, worker, n)` is the worker's n-th cell.
template <class Schedule>
struct v_shape : v_workers {
  static constexpr int ticks(int stages, int micro_batches) {
    return 6 * filled(stages, micro_batches) + workers(stages) - 1;
  }
  static constexpr int in_flight(int stages, int micro_batches, int stage) {
    return stages - stage < micro_batches ? stages - stage : micro_batches;
  }
  static constexpr cell at(int stages, int micro_batches, int worker, int tick) {
    if (tick < worker) return {};
    const cell found = Schedule::nth(stages, filled(stages, micro_batches), worker, tick - worker);
    return found.micro_batch < micro_batches ? found : cell{};
  }

 private:
  static constexpr int filled(int stages, int micro_batches) {
    const int minimum = Schedule::min_micro_batches(stages);
    return micro_batches < minimum ? minimum : micro_batches;
  }
};

/// The common part of schedules on `v_workers` that repeat one block of cells every 6 ticks, one block per
/// micro-batch. The parts of a micro-batch go down and up a V twice:
///
///     worker 0   F             F I                 I         forward down, up; backward's input part down, up:
///     worker 1     F         F     I             I           workers on a way begin `ways[i]` ticks one after the
///     worker 2       F   F           I       I               other, and the next way `turns[i]` ticks after its end
///     worker 3         F F             I I
///
/// The parameter parts take the two ticks of 6 that are free. The shorter the ways, the fewer micro-batches a worker
/// holds. Ticks before the first blocks meet are idle in the table; a worker does not wait for them.
///
/// A schedule has `shape_of(workers)`, for which no two parts meet in one tick of a worker.
struct v_block_shape {
  int ways[4];
  int turns[3];
  /// The parameter parts on the way up of the last `late` micro-batches that a stage holds run `late` blocks later, so
  /// that input parts, for which other workers wait, come first.
  int late = 0;
};

/// The first micro-batch's parts on a worker, in ticks. (A compiler makes one block per cell that it reads, so there
/// is no loop, and parameter parts are computed only where they are needed.)
struct v_block {
  int forward_down, forward_up, input_up, input_down, late;

  constexpr v_block(const v_block_shape& shape, int last, int worker)
      : forward_down(shape.ways[0] * worker),
        forward_up(shape.ways[0] * last + shape.turns[0] + shape.ways[1] * (last - worker)),
        input_up((shape.ways[0] + shape.ways[1]) * last + shape.turns[0] + shape.turns[1] + shape.ways[2] * worker),
        input_down((shape.ways[0] + shape.ways[1] + shape.ways[2]) * last + shape.turns[0] + shape.turns[1] +
                   shape.turns[2] + shape.ways[3] * (last - worker)),
        late(shape.late) {}

  /// The parameter parts of the stages on the way up and on the way down, each in one of the two ticks of 6 that are
  /// free: so that the stages hold the fewest micro-batches, and as soon as both can be.
  struct parameter_parts {
    int up, down;
  };
  constexpr parameter_parts parameters() const {
    const unsigned free = 63U & ~taken();
    const int first_free = std::countr_zero(free), second_free = std::countr_zero(free & (free - 1));
    const parameter_parts earlier{tick_after(input_up, first_free), tick_after(input_down, second_free)};
    const parameter_parts later{tick_after(input_up, second_free), tick_after(input_down, first_free)};
    return cost(later) < cost(earlier) ? later : earlier;
  }
  /// The micro-batches that the stages hold at most: from forward until the parameter part, one more in every 6 ticks.
  constexpr int held_up(const parameter_parts& parts) const { return (parts.up - forward_up) / 6 + 1; }
  constexpr int held_down(const parameter_parts& parts) const { return (parts.down - forward_down) / 6 + 1; }
  /// Whether no two parts meet in a tick of 6.
  constexpr bool fits() const { return std::popcount(taken()) == 4; }

 private:
  /// Orders two choices by the micro-batches held, then by their ticks, whose sums differ by at most 6.
  constexpr int cost(const parameter_parts& parts) const {
    return 12 * ((parts.up - forward_up) / 6 + (parts.down - forward_down) / 6) + parts.up + parts.down;
  }
  /// The ticks of 6 that the ways take, as bits.
  constexpr unsigned taken() const {
    return 1U << forward_down % 6 | 1U << forward_up % 6 | 1U << input_up % 6 | 1U << input_down % 6;
  }
  /// The first tick after `part` whose remainder modulo 6 is `place`.
  static constexpr int tick_after(int part, int place) { return part + 1 + (place + 5 - part % 6) % 6; }
};

template <class Schedule>
struct v_blocks : v_workers {
  static constexpr int ticks(int stages, int micro_batches) {
    int last = 0;
    for (int w = 0; w < workers(stages); ++w) {
      const v_block block = block_of(stages, w);
      const auto [up, down] = block.parameters();
      if (up + 6 * block.late > last) last = up + 6 * block.late;
      if (down > last) last = down;
    }
    return 6 * (micro_batches - 1) + last + 1;
  }
  static constexpr int in_flight(int stages, int micro_batches, int stage) {
    const v_block block = block_of(stages, worker_of(stages, stage));
    const int held = stage < stages / 2 ? block.held_down(block.parameters()) : block.held_up(block.parameters());
    return held < micro_batches ? held : micro_batches;
  }
  static constexpr cell at(int stages, int micro_batches, int worker, int tick) {
    using enum action_kind;
    const v_block block = block_of(stages, worker);
    const int down = worker, up = stages - 1 - worker;
    const auto cell_of = [tick, micro_batches](action_kind kind, int stage, int first) {
      const int m = (tick - first) / 6;
      return tick < first || m >= micro_batches ? cell{} : cell{kind, stage, m};
    };
    if ((tick - block.forward_down) % 6 == 0) return cell_of(forward, down, block.forward_down);
    if ((tick - block.forward_up) % 6 == 0) return cell_of(forward, up, block.forward_up);
    if ((tick - block.input_up) % 6 == 0) return cell_of(backward_input, up, block.input_up);
    if ((tick - block.input_down) % 6 == 0) return cell_of(backward_input, down, block.input_down);
    const auto parameters = block.parameters();
    if ((tick - parameters.down) % 6 == 0) return cell_of(backward_parameters, down, parameters.down);
    const int held = block.held_up(parameters), in_time = micro_batches - (block.late < held ? block.late : held);
    if (tick < parameters.up + 6 * in_time) return cell_of(backward_parameters, up, parameters.up);
    const int later = parameters.up + 6 * block.late;
    return tick < later + 6 * in_time ? cell{} : cell_of(backward_parameters, up, later);
  }

  /// Whether no two parts meet, on any worker. The numbers of workers repeat every 6.
  static constexpr bool fits() {
    for (int K = 1; K < 14; ++K)
      for (int w = 0; w < K; ++w)
        if (!block_of(2 * K, w).fits()) return false;
    return true;
  }

 private:
  static constexpr v_block block_of(int stages, int worker) {
    return {Schedule::shape_of(stages / 2), stages / 2 - 1, worker};
  }
};

}  // namespace gpipe::detail
