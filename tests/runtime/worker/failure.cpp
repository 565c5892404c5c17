// sanitizers: address

#include <gpipe/runtime/worker/failure.hpp>

#include <doctest/doctest.h>

#include <limits>

using namespace gpipe;
using namespace gpipe::detail;

// Named exceptions of instructions: tests/runtime/worker/worker.cpp.

namespace {

/// The error of a pass that is not finite, whose repetition finds nothing.
std::string reason(pass_kind kind, double weight, int accumulated, bool holds, int& repeated) {
  step_context step;
  step.begin(kind);
  step.step = 3;
  commit_decision decision;
  decision.result.found.weight = weight;
  decision.result.holds = holds;
  try {
    detail::throw_nonfinite(step, decision, accumulated, [&] {
      CHECK(step.diagnoses());
      CHECK(step.repeated == kind);
      ++repeated;
    });
  } catch (const error& found) {
    CHECK(found.where().step == 3);
    return found.wrong();
  }
}

}  // namespace

TEST_CASE("throw_nonfinite repeats the pass and says what it found") {
  int repeated = 0;
  CHECK(reason(pass_kind::train, 0, 0, false, repeated) == "the weights of the batch's samples sum to 0");
  CHECK(reason(pass_kind::train, 1e-45, 0, false, repeated) == "the weights of the batch's samples sum to 1e-45");
  CHECK(repeated == 0);
  CHECK(reason(pass_kind::train, 1, 0, false, repeated) ==
        "the norm of the gradient is not finite, though every gradient is");
  CHECK(reason(pass_kind::accumulate, 0, 2, false, repeated) ==
        "the sum of the accumulated gradients is not finite, though those of this call are");
  CHECK(reason(pass_kind::train, 1, 0, true, repeated) ==
        "a number was not finite, but was finite when it was computed again");
  CHECK(reason(pass_kind::evaluate, 1, 2, false, repeated) ==
        "a number was not finite, but was finite when it was computed again");
  CHECK(repeated == 4);
}
