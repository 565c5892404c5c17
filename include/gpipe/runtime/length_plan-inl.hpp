#pragma once

#include <gpipe/core/config.hpp>
#include <gpipe/plan/memory/memory_kind.hpp>
#include <gpipe/runtime/length_plan.hpp>

namespace gpipe::detail {

GPIPE_INLINE GPIPE_COLD void share_arenas(step_plan& longest, const std::vector<length_plan>& shorter) {
  for (int s = 0; s < longest.stages(); ++s) {
    stage_memory& memory = longest.stage_plans[index(s)].memory;
    const stage_memory initial = memory;
    for (const length_plan& length : shorter) {
      for (int k = 0; k < static_cast<int>(memory_kind::partials); ++k)
        if (const auto kind = static_cast<memory_kind>(k); length.plan.memory(s).of(kind) != initial.of(kind))
          throw_error({"the plans of two lengths have ", initial.of(kind), " and ", length.plan.memory(s).of(kind),
                       " bytes of ", name_of(kind)},
                      {"give all lengths the same options"}, {.stage = s});
      const std::int64_t more = length.plan.memory(s).total() - memory.total();
      memory.bytes[static_cast<int>(memory_kind::transient)] += (std::max)(more, std::int64_t{0});
    }
  }
}

}  // namespace gpipe::detail
