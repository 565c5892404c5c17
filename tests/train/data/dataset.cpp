// sanitizers: address

#include <gpipe/train/data/dataset.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <limits>
#include <span>

using namespace gpipe;

namespace {

dataset ten() {
  std::vector<float> x;
  std::vector<std::int32_t> labels;
  for (int i = 0; i < 10; ++i) {
    labels.push_back(i);
    for (int j = 0; j < 3; ++j) x.push_back(static_cast<float>(100 * i + j));
  }
  return dataset{}.with("inputs", 3, x).with("labels", 1, labels);
}

/// The labels in the order of the batches; every row must belong to its label.
std::vector<int> order(dataset::stream stream) {
  std::vector<int> labels;
  for (const batch& b : stream) {
    const auto* x = static_cast<const float*>(b.find("inputs")->data);
    const auto* y = static_cast<const std::int32_t*>(b.find("labels")->data);
    CHECK(b.find("inputs")->elements == 3 * static_cast<std::size_t>(b.samples()));
    for (int i = 0; i < b.samples(); ++i) {
      labels.push_back(y[i]);
      for (int j = 0; j < 3; ++j) CHECK(x[3 * i + j] == static_cast<float>(100 * y[i] + j));
    }
  }
  return labels;
}

std::vector<int> sorted(std::vector<int> labels) {
  std::sort(labels.begin(), labels.end());
  return labels;
}

// Not a temporary: it must outlive its batches.
template <class Stream>
constexpr bool has_begin = requires(Stream&& s) { *static_cast<Stream&&>(s).begin(); };
static_assert(has_begin<dataset::stream&> && !has_begin<dataset::stream>);

const std::vector<int> ascending{0, 1, 2, 3, 4, 5, 6, 7, 8, 9};

}  // namespace

TEST_CASE("a field is a vector, a span, an array, ...") {
  const float x[] = {1, 2, 3, 4};
  const std::array<std::int32_t, 2> labels{5, 6};
  const std::vector<double> z{7, 8, 9};
  const dataset data = dataset{}.with("x", 2, x).with("labels", 1, labels).with("z", 1, std::span(z).first(2));
  auto all = data.batches(2);
  const batch both = *all.begin();
  CHECK(static_cast<const float*>(both.find("x")->data)[3] == 4);
  CHECK(static_cast<const std::int32_t*>(both.find("labels")->data)[1] == 6);
  CHECK(static_cast<const double*>(both.find("z")->data)[1] == 8);
}

TEST_CASE("batches hold every sample once, in order, the last ones in a smaller batch") {
  const dataset data = ten();
  CHECK(data.samples() == 10);
  for (const int size : {1, 3, 4, 10, 64}) {
    CHECK(order(data.batches(size)) == ascending);
    CHECK(data.batches(size).count() == (10 + size - 1) / size);
  }
  std::vector<int> sizes;
  for (const batch& b : data.batches(4)) sizes.push_back(b.samples());
  CHECK(sizes == std::vector<int>{4, 4, 2});
}

TEST_CASE("a shuffled pass is a permutation, and a function of seed and epoch") {
  const dataset data = ten();
  const auto first = order(data.shuffled(3, 1, 0));
  CHECK(sorted(first) == ascending);
  CHECK(first != ascending);
  CHECK(order(data.shuffled(3, 1, 0)) == first);
  CHECK(order(data.shuffled(7, 1, 0)) == first);
  CHECK(order(data.shuffled(3, 2, 0)) != first);
  CHECK(order(data.shuffled(3, 1, 1)) != first);
}

TEST_CASE("a shuffle prefers no position") {
  const dataset data = dataset{}.with("labels", 1, std::vector<std::int32_t>{0, 1, 2});
  int seen[3][3] = {};
  for (std::uint64_t epoch = 0; epoch < 3000; ++epoch) {
    int at = 0;
    for (const batch& b : data.shuffled(1, 5, epoch))
      ++seen[at++][*static_cast<const std::int32_t*>(b.find("labels")->data)];
  }
  for (const auto& position : seen)
    for (const int count : position) {
      CHECK(count > 900);  // 1000, with a deviation of 26
      CHECK(count < 1100);
    }
}

TEST_CASE("rows that do not fit are rejected") {
  const std::vector<float> seven(7), none;
  CHECK_THROWS_WITH_AS(dataset{}.with("inputs", 3, seven),
                       "field \"inputs\" has 7 elements, which is no multiple of its row of 3; give every sample a whole row", error);
  CHECK_THROWS_AS(dataset{}.with("inputs", 0, seven), error);
  CHECK_THROWS_WITH_AS(dataset{}.with("inputs", 7, seven).with("inputs", 7, seven),
                       "the dataset has a field \"inputs\" already; give each field once", error);
  CHECK_THROWS_AS(dataset{}.with("inputs", 3, none), error);
  CHECK_THROWS_WITH_AS(ten().with("weights", 1, seven),
                       "field \"weights\" has 7 rows, but the others have 10; give every sample a row in every field",
                       error);
  const dataset all = ten(), empty;
  CHECK_THROWS_WITH_AS(all.batches(0), "the batch size is 0; choose at least 1", error);
  CHECK_THROWS_AS(all.shuffled(-1, 0, 0), error);
  CHECK_THROWS_WITH_AS(empty.batches(3), doctest::Contains("the dataset has no samples"), error);
}

TEST_CASE("a batch may be larger than the dataset") {
  const dataset all = ten();
  CHECK(all.batches((std::numeric_limits<int>::max)()).count() == 1);
  CHECK(all.batches(3).count() == 4);
  CHECK(all.batches(5).count() == 2);
}

TEST_CASE("batches name the rows of the dataset, and carry a column that no layer reads") {
  const std::vector<std::int32_t> ids{70, 71, 72, 73};
  const dataset data = dataset{}.with("labels", 1, std::vector<std::int32_t>{0, 1, 2, 3}).with_unread("id", 1, ids);
  auto shuffled = data.shuffled(2, 1, 0);
  for (const batch& b : shuffled) {
    REQUIRE(b.find("id")->unread);
    CHECK(!b.find("labels")->unread);
    for (int i = 0; i < b.samples(); ++i) {
      const int row = b.dataset_rows()[i];
      CHECK(static_cast<const std::int32_t*>(b.find("labels")->data)[i] == row);
      CHECK(static_cast<const std::int32_t*>(b.find("id")->data)[i] == 70 + row);
    }
  }
}
