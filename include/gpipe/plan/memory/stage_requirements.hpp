#pragma once

#include <cstdint>

#include <gpipe/plan/memory/layout.hpp>
#include <gpipe/plan/memory/requirements.hpp>
#include <gpipe/plan/memory/stage_plan.hpp>
#include <gpipe/plan/stages/stage_view.hpp>

namespace gpipe {

constexpr std::int64_t stage_plan::count(const stage_view& stage, const memory_requirements& needs) {
  if (!counted || requirements != needs) memory = memory_of(stage, needs);
  requirements = needs;
  counted = true;
  return memory.total();
}

namespace detail {

/// Counts the bytes of a stage, unless an earlier step has.
GPIPE_COLD constexpr void count_memory(const stage_view& stage, stage_plan& plan) {
  plan.count(stage, plan.requirements);
}

}  // namespace detail

}  // namespace gpipe
