#pragma once

#include <gpipe/plan/schedule/contract/scheduler.hpp>
#include <gpipe/plan/schedule/contract/v_shape.hpp>

namespace gpipe {

/// V-Min: Qi et al., "Pipeline Parallelism with Controllable Memory", 2024 (arXiv 2405.15362). A part runs as soon as
/// the micro-batch arrives, so that a worker's stages hold few: the inputs of at most 2 K / 3 + 3 chunks, half a stage
/// each, where 1F1B's first worker holds 2 K. With equal parts a step takes some 6 M + 3.5 K parts, at most 6 M + 4 K.
///
///     tick      0    1    2    3    4    5    6    7    8    9    10   11   12   13   14   15   16
///     worker 0  0F0  .    .    3F0  3I0  3W0  0F1  0I0  0W0  3F1  3I1  3W1  .    0I1  0W1  .    .
///     worker 1  .    1F0  2F0  .    .    2I0  1I0  1F1  2F1  2W0  1W0  2I1  1I1  .    .    2W1  1W1
struct v_min : detail::v_blocks<v_min> {
  static constexpr const char* name() { return "V-Min"; }
  static constexpr detail::v_block_shape shape_of(int workers) {
    return workers % 3 != 0 ? detail::v_block_shape{{1, 1, 1, 1}, {1, 1, 1}}
                            : detail::v_block_shape{{1, 1, 1, 1}, {5, 1, 3}};
  }
};

static_assert(scheduler<v_min> && v_min::fits());

}  // namespace gpipe
