#pragma once

#include <gpipe/plan/schedule/contract/scheduler.hpp>
#include <gpipe/plan/schedule/contract/v_shape.hpp>

namespace gpipe {

/// V-Half: Qi et al., "Pipeline Parallelism with Controllable Memory", 2024 (arXiv 2405.15362). A worker's stages hold
/// the inputs of at most K + 2 chunks, half a stage each: some half of what 1F1B's first worker holds, 2 K. With equal
/// parts a step takes some 6 M + 3 K parts, at most 6 M + 3.5 K. Three micro-batches, each part as early as it can run:
///
///     worker 0  0F0 0F1 .   3F0 3I0 3W0 0F2 .   3F1 3I1 3W1 0I0 0W0 3F2 3I2 0I1 0W1 .   0I2 0W2 3W2
///     worker 1  .   1F0 2F0 1F1 .   2I0 2W0 2F1 1F2 1I0 2I1 2W1 2F2 1W0 1I1 2I2 1W1 1I2 1W2 2W2 .
struct v_half : detail::v_blocks<v_half> {
  static constexpr const char* name() { return "V-Half"; }
  static constexpr detail::v_block_shape shape_of(int workers) {
    return workers % 2 == 0 ? detail::v_block_shape{{1, 2, 1, 2}, {4, 1, 5}, 2}
                            : detail::v_block_shape{{1, 2, 1, 2}, {2, 1, 1}};
  }
};

static_assert(scheduler<v_half> && v_half::fits());

}  // namespace gpipe
