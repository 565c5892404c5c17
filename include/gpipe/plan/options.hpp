#pragma once

#include <limits>

#include <gpipe/core/error.hpp>
#include <gpipe/core/recompute.hpp>
#include <gpipe/plan/schedule/kind.hpp>

namespace gpipe {

/// The choices that make a plan of a network, at compile time or at run time.
struct plan_options {
  int stages = 1;             ///< S
  int micro_batches = 1;      ///< M
  int micro_batch_size = 32;  ///< B, the most samples of a micro-batch
  recompute_mode recompute = recompute_mode::except_last;
  schedule_kind schedule = schedule_kind::fill_drain;
  int moments = 2;  ///< arrays that the optimizer keeps beside the parameters: Adam two, SGD with momentum one

  GPIPE_ONCE constexpr void require_sensible(int slots) const {
    using detail::refuse;
    if (stages < 1 || stages > slots)
      refuse({"the model cannot be cut into ", stages, " stages"}, {"choose 1 to ", slots, ", its number of layers"});
    if (micro_batches < 1) refuse({micro_batches, " micro-batches are no step"}, {"choose at least 1"});
    if (micro_batch_size < 1)
      refuse({"a micro-batch of ", micro_batch_size, " samples is no micro-batch"}, {"choose at least 1"});
    if (micro_batch_size > (std::numeric_limits<int>::max)() / micro_batches)
      refuse({micro_batches, " micro-batches of ", micro_batch_size, " samples are more than can be counted"},
             {"choose fewer"});
  }
};

}  // namespace gpipe
