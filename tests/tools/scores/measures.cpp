// sanitizers: address

#include <gpipe/tools/scores/measures.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

using namespace gpipe;

namespace {

// Labels and predictions of which scikit-learn has the measures below.
const std::vector<std::int32_t> labels{0, 0, 0, 1, 1, 2};
const std::vector<int> predictions{0, 0, 1, 1, 2, 1};

confusion_matrix matrix(int classes) {
  std::vector<float> logits;
  for (const int p : predictions)
    for (int c = 0; c < classes; ++c) logits.push_back(c == p ? 2.0F : -1.0F);
  return {std::span<const float>(logits), labels};
}

}  // namespace

TEST_CASE("a confusion matrix counts labels and predictions") {
  const confusion_matrix found = matrix(3);
  CHECK(found.classes() == 3);
  CHECK(found.count(0, 0) == 2);
  CHECK(found.count(0, 1) == 1);
  CHECK(found.count(1, 2) == 1);
  CHECK(found.count(2, 1) == 1);
  CHECK(found.count(2, 2) == 0);
  CHECK(found.labelled(0) == 3);
  CHECK(found.predicted(1) == 3);
}

TEST_CASE("the measures are scikit-learn's") {
  const confusion_matrix found = matrix(3);
  CHECK(found.accuracy() == doctest::Approx(0.5));
  CHECK(found.precision(1) == doctest::Approx(1 / 3.0));
  CHECK(found.recall(0) == doctest::Approx(2 / 3.0));
  CHECK(found.f1(0) == doctest::Approx(0.8));
  CHECK(found.f1(1) == doctest::Approx(0.4));
  CHECK(found.f1(2) == 0);
  CHECK(found.macro_f1() == doctest::Approx(0.4));
  CHECK(matrix(4).macro_f1() == doctest::Approx(0.4));  // the fourth class does not occur
  CHECK(matrix(4).precision(3) == 0);
}

TEST_CASE("the first of the largest logits counts, as for the loss") {
  const std::vector<float> logits{1, 1, 0};
  CHECK(confusion_matrix(std::span<const float>(logits), std::vector<std::int32_t>{0}).accuracy() == 1);
}

TEST_CASE("the root mean squared error") {
  CHECK(root_mean_squared_error(std::vector<float>{1, 2, 3}, std::vector<double>{1, 4, 1}) ==
        doctest::Approx(std::sqrt(8 / 3.0)));
  tensor_rows rows;
  rows.add({.size = 1, .type = dtype::float32}, 2);
  rows.resize(2);
  const float two[] = {1, 3};
  std::memcpy(rows.at(0, 0), two, sizeof two);
  std::vector<float> targets{1, 1};
  CHECK(root_mean_squared_error(rows, std::span(targets)) == std::sqrt(2.0));
  CHECK_THROWS_WITH_AS(root_mean_squared_error(rows, std::vector<double>(2)), doctest::Contains("tensor 0 holds float"),
                       error);
  CHECK_THROWS_WITH_AS(root_mean_squared_error(std::vector<float>{1, 2}, std::vector<float>{1}),
                       doctest::Contains("there are 2 predictions and 1 targets"), error);
}

TEST_CASE("classes have weights, given or balanced") {
  CHECK(weights_of_classes(labels, {1, 5, 2}) == std::vector<float>{1, 1, 1, 5, 5, 2});
  CHECK(balanced_class_weights(labels, 3) == std::vector<float>{2 / 3.0F, 1, 2});
  CHECK(balanced_class_weights(labels, 4)[3] == 0);
  CHECK_THROWS_WITH_AS(weights_of_classes(labels, {1, 5}), doctest::Contains("label 5 is 2, and 2 classes"), error);
  CHECK_THROWS_WITH_AS(balanced_class_weights(labels, 2), doctest::Contains("label 5 is 2"), error);
}

TEST_CASE("numbers that do not fit are refused") {
  const std::vector<float> logits(7);
  CHECK_THROWS_WITH_AS(confusion_matrix(std::span<const float>(logits), labels),
                       doctest::Contains("there are 7 logits and 6 labels"), error);
  const std::vector<float> two(2);
  CHECK_THROWS_WITH_AS(confusion_matrix(std::span<const float>(two), std::vector<std::int32_t>{2}),
                       doctest::Contains("label 0 is 2; choose labels in 0 ... 1"), error);
}
