#pragma once

#include <gpipe/plan/schedule/contract/action.hpp>
#include <gpipe/plan/schedule/contract/scheduler.hpp>
#include <gpipe/plan/schedule/contract/v_shape.hpp>

namespace gpipe {

/// DualPipeV: DualPipe (DeepSeek-AI, "DeepSeek-V3 Technical Report", 2024, arXiv 2412.19437) cut in half, as in the
/// authors' program and in PyTorch. Worker w of K has stages w and S - 1 - w, as in ZB-V. Only a few backwards at the
/// begin and at the end are in two parts; in between, a worker alternates a forward of one stage with a whole backward
/// of the other one, which a device with two streams can overlap. (Our workers run them one after the other.) If
/// forward and both parts of backward have equal times, and M >= 2 K, a worker is idle for K - 1 parts: a step takes
/// 6 M + K - 1, as in ZB-V. Every worker holds the inputs of at most 2 K + 1 chunks. With fewer micro-batches, which
/// PyTorch refuses, the ticks of the missing ones are idle. In the drawing a whole backward has two ticks:
///
///     tick      0    1    2    3    4    5    6    7    8    9    10   11   12   13   14   15   16   17   18
///     worker 0  0F0  0F1  0F2  3F0  3I0  3W0  3F1  0F3  3B1  .    3F2  0B0  .    3B2  .    3F3  .    0B1  .    ...
///     worker 1  .    1F0  2F0  1F1  2F1  1F2  2B0  .    2F2  1B0  .    1F3  2B1  .    2F3  1B1  .    2B2  .    ...
///
///                                                              end of worker 0:  .    0I2  0W2  0I3  0W3
///                                                              end of worker 1:  .    2I3  1I3  2W3  1W3
struct dual_pipe_v : detail::v_shape<dual_pipe_v> {
  static constexpr const char* name() { return "DualPipeV"; }
  static constexpr int min_micro_batches(int stages) { return stages; }

  // The worker's n-th cell, by rounds of a few ticks. `down` is its stage on the way down the V, `up` on the way up.
  static constexpr cell nth(int stages, int M, int worker, int n) {
    const int K = stages / 2, w = worker, down = w, up = stages - 1 - w, before = K - 1 - w, behind = w + 1;
    constexpr action_kind F = action_kind::forward, B = action_kind::backward, Bx = action_kind::backward_input,
                          W = action_kind::backward_parameters;
    const auto takes = [&n](int rounds, int cells) {
      if (n < rounds * cells) return true;
      n -= rounds * cells;
      return false;
    };
    if (takes(2 * before, 1)) return {F, down, n};
    if (takes(behind, 2)) return n % 2 == 0 ? cell{F, down, 2 * before + n / 2} : cell{F, up, n / 2};
    if (takes(before, 3)) {
      const int m = n / 3, part = n % 3;
      return part == 2 ? cell{F, up, behind + m} : cell{part == 0 ? Bx : W, up, m};
    }
    const int steady = M - 2 * K + behind;  // rounds in which both stages run both ways
    if (takes(steady, 6)) {
      const int m = n / 6, part = n % 6;
      if (part == 0) return {F, down, 2 * before + behind + m};
      if (part == 3) return {F, up, K + m};
      return part == 1 ? cell{B, up, before + m} : part == 4 ? cell{B, down, m} : cell{};
    }
    if (takes(before, 6)) {  // all forwards on the way down are done
      const int m = steady + n / 6, part = n % 6;
      if (part == 2) return {F, up, K + m};
      return part == 0 ? cell{B, up, before + m} : part == 4 ? cell{B, down, m} : cell{};
    }
    // Input parts and whole backwards by turns, first on the way up: i = 0, 1, 2, ...
    const auto turn = [&](action_kind kind, int i) {
      return i % 2 == 0 ? cell{kind, up, M - behind + i / 2} : cell{kind, down, M - K + i / 2};
    };
    if (takes(behind, 2)) return n % 2 == 0 ? turn(B, n / 2) : cell{};
    if (takes(behind, 1)) return turn(Bx, behind + n);
    const auto parameters = [&](int i) {  // in the order of the input parts
      return i < behind ? turn(W, behind + i) : cell{W, down, M - before + i - behind};
    };
    if (takes(before, 2)) return n % 2 == 0 ? parameters(n / 2) : cell{Bx, down, M - before + n / 2};
    if (takes(behind, 1)) return parameters(before + n);
    return {};
  }
};

static_assert(scheduler<dual_pipe_v>);

}  // namespace gpipe
