#include <gpipe/train/loop.hpp>

#include <doctest/doctest.h>

using namespace gpipe;

namespace {

/// A trainer that notes what it is given.
struct noting {
  std::vector<int> sizes{}, labels{};
  double rate() const { return 0.5 / static_cast<double>(sizes.size() + 1); }
  outcome step(const batch& b) {
    sizes.push_back(b.samples());
    for (int i = 0; i < b.samples(); ++i) labels.push_back(static_cast<const std::int32_t*>(b.find("labels")->data)[i]);
    outcome found;
    found.samples = b.samples();
    found.weight = 2.0 * b.samples();
    found.loss = b.samples();
    return found;
  }
};

const dataset five = dataset{}.with("labels", 1, std::vector<std::int32_t>{0, 1, 2, 3, 4});

}  // namespace

TEST_CASE("every epoch goes over all samples, in an order of its own") {
  noting training;
  std::vector<standing> told;
  fit(training, five, {.epochs = 2, .batch = 3, .seed = 4}, [&](const standing& now) { told.push_back(now); });
  CHECK(training.sizes == std::vector<int>{3, 2, 3, 2});
  const std::vector<int> first(training.labels.begin(), training.labels.begin() + 5);
  const std::vector<int> second(training.labels.begin() + 5, training.labels.end());
  CHECK(first != second);
  CHECK(std::is_permutation(first.begin(), first.end(), second.begin()));

  REQUIRE(told.size() == 4);
  CHECK(told[1].epoch == 1);
  CHECK(told[2].epoch == 2);
  CHECK(told[3].epochs == 2);
  CHECK(told[1].step == 2);
  CHECK(told[1].steps == 2);
  CHECK(told[0].rate == 0.5);  // of the step that was taken
  CHECK(told[1].rate == 0.25);
  CHECK(told[0].loss == 3);
  CHECK(told[1].loss == (3 * 6 + 2 * 4) / 10.0);  // by weight
  CHECK(told[2].loss == 3);                       // anew in each epoch
}

TEST_CASE("what is no loop is refused") {
  noting training;
  const auto nothing = [](const standing&) {};
  CHECK_THROWS_AS(fit(training, five, {.batch = 0}, nothing), error);
  CHECK_THROWS_AS(fit(training, dataset{}, {}, nothing), error);
  CHECK(training.sizes.empty());
  CHECK(loop{.batch = 4}.steps_per_epoch(9) == 3);
}
