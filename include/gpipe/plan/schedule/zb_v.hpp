#pragma once

#include <gpipe/plan/schedule/contract/action.hpp>
#include <gpipe/plan/schedule/contract/scheduler.hpp>
#include <gpipe/plan/schedule/contract/v_shape.hpp>

namespace gpipe {

/// ZB-V: Qi et al., "Zero Bubble Pipeline Parallelism", 2023 (arXiv 2401.10241). Worker w of K has stages w and
/// S - 1 - w, so that micro-batches go down and up a V, and the loss is on worker 0; backward is in two parts. If all
/// parts have equal times and M >= 2 K - 1, a worker is never idle after its first cell: a step takes 6 M + K - 1
/// parts, where K - 1 is the cost of the common commit. Each worker holds the inputs of at most 2 K chunks, like 1F1B's
/// first worker.
///
///     tick      0    1    2    3    4    5    6    7    8    9    10   11   12   13   14   15   16   17   18
///     worker 0  0F0  0F1  0F2  3F0  3I0  3W0  3F1  3I1  3W1  0I0  0W0  3F2  3I2  3W2  0I1  0W1  0I2  0W2  .
///     worker 1  .    1F0  2F0  1F1  2F1  2I0  2W0  1F2  1I0  1W0  2F2  2I1  2W1  1I1  2I2  1I2  1W1  2W2  1W2
struct zb_v : detail::v_shape<zb_v> {
  static constexpr const char* name() { return "ZB-V"; }
  static constexpr int min_micro_batches(int stages) { return stages - 1; }

  // The worker's n-th cell, by rounds of a few cells. `down` is its stage on the way down the V, `up` on the way up.
  static constexpr cell nth(int stages, int M, int worker, int n) {
    const int K = stages / 2, w = worker, down = w, up = stages - 1 - w;
    constexpr action_kind F = action_kind::forward, Bx = action_kind::backward_input,
                          W = action_kind::backward_parameters;
    const auto takes = [&n](int rounds, int cells) {
      if (n < rounds * cells) return true;
      n -= rounds * cells;
      return false;
    };
    if (takes(2 * (K - w) - 1, 1)) return {F, down, n};
    if (takes(w, 2)) return n % 2 == 0 ? cell{F, up, n / 2} : cell{F, down, 2 * (K - w) - 1 + n / 2};
    if (takes(K - w, 3)) return n % 3 == 0 ? cell{F, up, w + n / 3} : cell{n % 3 == 1 ? Bx : W, up, n / 3};
    const int steady = M - 2 * K + 1 + w;  // rounds in which all six parts run
    if (takes(steady, 6)) {
      const int m = n / 6, part = n % 6;
      if (part < 3) return part == 0 ? cell{F, down, 2 * K - 1 - w + m} : cell{part == 1 ? Bx : W, down, m};
      return part == 3 ? cell{F, up, K + m} : cell{part == 4 ? Bx : W, up, K - w + m};
    }
    if (takes(K - 1 - w, 5)) {  // all forwards on the way down are done
      const int m = steady + n / 5, part = n % 5;
      if (part < 2) return {part == 0 ? Bx : W, down, m};
      return part == 2 ? cell{F, up, K + m} : cell{part == 3 ? Bx : W, up, K - w + m};
    }
    if (takes(w, 2)) return n % 2 == 0 ? cell{Bx, down, M - K + n / 2} : cell{Bx, up, M - w + n / 2};
    if (takes(K - w, 2)) return n % 2 == 0 ? cell{Bx, down, M - K + w + n / 2} : cell{W, down, M - K + n / 2};
    if (takes(w, 1)) return {W, up, M - w + n};
    if (takes(w, 1)) return {W, down, M - w + n};
    return {};
  }
};

static_assert(scheduler<zb_v>);

}  // namespace gpipe
