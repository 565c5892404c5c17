#pragma once

#include <limits>
#include <string>

#include <gpipe/core/error.hpp>
#include <gpipe/runtime/step/commit_decision.hpp>
#include <gpipe/runtime/step/step_context.hpp>

namespace gpipe::detail {

/// Throws why a call is not finite, behind `accumulated` others of its step. `replay()` does it once more, up to its
/// decision, with a look at each layer: it throws the name of the one where it began.
template <class Replay>
[[noreturn]] GPIPE_ONCE void explain(step_state& step, const commit& decision, int accumulated, Replay&& replay) {
  const auto where = place{.step = static_cast<long>(step.step)};
  if (step.commits && decision.found.weight < (std::numeric_limits<float>::min)())
    refuse({"the weights of the batch's samples sum to ", std::to_string(decision.found.weight)},
           {"give at least one sample a positive weight"}, where);
  step.examining = true;
  step.applied = step.measured = step.written = false;
  replay();
  if (step.training && accumulated > 0)
    throw error("the sum of the accumulated gradients is not finite, though those of this call are",
                "lower the learning rate or the loss; parameters are as before the step", where);
  if (!step.training || decision.holds)
    throw error("a number was not finite, and was when it was computed again",
                "see whether the data change meanwhile; parameters are as before", where);
  throw error("the norm of the gradient is not finite, though every gradient is",
              "lower the learning rate or the loss; parameters are as before the step", where);
}

}  // namespace gpipe::detail
