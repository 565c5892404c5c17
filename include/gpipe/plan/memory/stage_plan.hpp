#pragma once

#include <cstdint>

#include <gpipe/plan/memory/memory_kind.hpp>
#include <gpipe/plan/memory/requirements.hpp>

namespace gpipe {

class stage_view;

/// A stage of a plan: its layers, its requirements, and its bytes by kind. The steps that follow the cut pass
/// it on, so a stage's bytes are counted once for the same requirements.
struct stage_plan {
  int first = 0, last = 0;  ///< the layers [first, last)
  memory_requirements requirements{};
  stage_memory memory{};
  bool counted = false;  ///< `memory` was counted with `requirements`

  /// The bytes with these requirements, which the stage takes. To call it, include
  /// <gpipe/plan/memory/stage_requirements.hpp>.
  constexpr std::int64_t count(const stage_view& stage, const memory_requirements& needs);
};

}  // namespace gpipe
