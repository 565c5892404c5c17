// sanitizers: address

#include <gpipe/runtime/step/step_result.hpp>

#include <doctest/doctest.h>

using namespace gpipe;
using namespace gpipe::detail;

TEST_CASE("a metric is the mean of a partial of the loss, by weight") {
  constexpr partial partials[] = {"loss", "weight", "top 5", {"per class", 2}};
  layer_type loss;
  loss.name = "regression";
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
  CHECK_FALSE(found.has_accuracy());
  CHECK_THROWS_WITH_AS(found.accuracy(), doctest::Contains("the loss regression has no accuracy; read its metrics"),
                       error);
  loss.correct = 1;
  CHECK(found.accuracy() == 0);
  CHECK_THROWS_WITH_AS(step_result{}.metric("loss"), "the loss has no partial \"loss\"; it has none", error);
}

TEST_CASE("each loss of several is found by its name") {
  constexpr partial partials[] = {"loss", "weight"};
  layer_type main, early;
  main.loss = early.loss = 0, main.partials = early.partials = partials, main.partial_count = early.partial_count = 2;
  early.loss_name = "early", early.loss_factor = 0.5;
  step_result found;
  result_source::of(found) = &main;
  found.sums[0] = 6, found.weight = 2, found.loss = 3;
  loss_result& other = result_source::auxiliary(found, early);
  other.sums[0] = 8, other.weight = 2;
  other.divide();
  CHECK(&result_source::auxiliary(found, early) == &other);
  result_source::add_auxiliary(found);
  CHECK(found.loss == 3 + 0.5 * 4);
  CHECK(found.loss_named("main").loss == 3);
  CHECK(found.loss_named("early").loss == 4);
  CHECK(found.loss_named("early").metric("loss") == 4);
  REQUIRE(found.auxiliary_losses().size() == 1);
  CHECK(found.auxiliary_losses()[0].name == "early");
  CHECK_THROWS_WITH_AS(found.loss_named("late"), "the model has no loss \"late\"; it has main, early", error);
}

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
