#pragma once

#include <limits>

#include <gpipe/core/error.hpp>
#include <gpipe/core/recompute.hpp>
#include <gpipe/plan/profile.hpp>
#include <gpipe/plan/recompute.hpp>

namespace gpipe {

inline constexpr std::int64_t no_memory_limit = (std::numeric_limits<std::int64_t>::max)();

/// The choices that make a plan of a network, at compile time or at run time.
struct plan_options {
  int stages = 1;             ///< S
  int micro_batches = 1;      ///< M
  int micro_batch_size = 32;  ///< B, the most samples of a micro-batch
  recompute_mode recompute = recompute_mode::except_last;
  schedule_kind schedule = schedule_kind::fill_drain;
  int chunks = 2;   ///< stages a worker, of the interleaved schedule
  const own_schedule* own = nullptr;  ///< of `schedule_kind::own`: `&own_schedule_of<mine>`
  int moments = 2;  ///< arrays that the optimizer keeps beside the parameters: Adam two, SGD with momentum one
  device on = this_cpu;  ///< what costs and transfers are reckoned for
  const device* each = nullptr;  ///< of the stages in turn, `each_count` of them, where they are not alike
  int each_count = 0;
  profile measured{};    ///< of the model, in place of the analytic costs; of one kind of device
  bool transfers = false;  ///< whether the cut pays for what crosses it, over the device's link
  std::int64_t memory_limit = no_memory_limit;  ///< bytes of every stage

  constexpr schedule_choice chosen_schedule() const {
    if (schedule != schedule_kind::own) return {schedule, chunks};
    return {*own, own->admits(stages, micro_batches) && detail::splits_backward(*own, stages, micro_batches)};
  }

  GPIPE_ONCE constexpr void require_sensible(int slots) const {
    using detail::refuse;
    if (stages < 1 || stages > slots)
      refuse({"the model cannot be cut into ", detail::several(stages, "stage")},
             {"choose 1 to ", slots, ", its number of layers"});
    if (each_count != 0 && each_count != stages)
      refuse({each_count, " devices are not one for each of ", stages, " stages"}, {"name the device of every stage"});
    if ((schedule == schedule_kind::own) != (own != nullptr))
      refuse({"a schedule of one's own is named by its kind and by what it is"},
             {"give both: .schedule = schedule_kind::own, .own = &own_schedule_of<mine>"});
    if (memory_limit < 1) refuse({"a memory limit of ", memory_limit, " bytes leaves no memory"}, {"choose more"});
    if (micro_batches < 1) refuse({micro_batches, " micro-batches are no step"}, {"choose at least 1"});
    if (micro_batch_size < 1)
      refuse({"a micro-batch of ", micro_batch_size, " samples is no micro-batch"}, {"choose at least 1"});
    if (micro_batch_size > (std::numeric_limits<int>::max)() / micro_batches)
      refuse({micro_batches, " micro-batches of ", micro_batch_size, " samples are more than can be counted"},
             {"choose fewer"});
  }
};

}  // namespace gpipe
