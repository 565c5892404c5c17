// sanitizers: address

#include <gpipe/runtime/step/step_result.hpp>

#include <doctest/doctest.h>

using namespace gpipe;
using namespace gpipe::detail;

TEST_CASE("a metric is the mean of a partial of the loss, by weight") {
  constexpr partial partials[] = {"loss", "weight", "top 5", {"per class", 2}};
  row loss;
  loss.partials = partials;
  loss.partial_count = 4;
  step_result found;
  detail::result_source::of(found) = &loss;
  found.weight = 4;
  found.sums[2] = 3;
  found.sums[4] = 2;
  CHECK(found.metric("top 5") == 0.75);
  CHECK(found.metric("loss") == 0);
  CHECK(found.metric("per class") == 0);
  CHECK(found.metric("per class", 1) == 0.5);
  CHECK_THROWS_AS(found.metric("per class", 2), error);
  CHECK_THROWS_WITH_AS(found.metric("top"), "the loss has no partial \"top\"; it has loss, weight, top 5, per class",
                       error);
  found.weight = 0;
  CHECK(found.metric("top 5") == 0);
  CHECK(found.accuracy() == 0);
  CHECK_THROWS_WITH_AS(step_result{}.metric("loss"), "the loss has no partial \"loss\"; it has none", error);
}
