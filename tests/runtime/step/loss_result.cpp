// sanitizers: address

#include <gpipe/runtime/step/loss_result.hpp>

#include <doctest/doctest.h>

using namespace gpipe;
using namespace gpipe::detail;

TEST_CASE("sums of calls give the mean, the accuracy and the metrics") {
  constexpr partial partials[] = {"loss", "weight", "correct", {"per class", 2}};
  detail::layer_type of;
  of.partials = partials, of.partial_count = 4;
  of.loss = 0, of.weight = 1, of.correct = 2;
  of.loss_name = "early", of.loss_factor = 0.25;
  loss_result first(&of), all(&of);
  const double sums[] = {6, 4, 2, 1, 3};
  for (std::size_t p = 0; p < 5; ++p) first.sums[p] = sums[p];
  first.weight = 4;
  all.add(first), all.add(first);
  CHECK(all.name == "early");
  CHECK(all.factor == 0.25);
  CHECK(all.weight == 8);
  CHECK(all.loss == 1.5);
  CHECK(all.accuracy() == 0.5);
  CHECK(all.metric("per class", 1) == 0.75);
  of.correct = -1;
  CHECK_FALSE(all.has_accuracy());
  CHECK_THROWS_AS(all.accuracy(), error);
  CHECK(loss_result{}.accuracy() == 0);
}
