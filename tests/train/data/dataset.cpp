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
constexpr bool has_begin = requires(Stream&& s) {
  *static_cast<Stream&&>(s).begin();
};
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

TEST_CASE("a split has every row once, and is a function of fraction and seed") {
  const dataset data = ten();
  const auto rows_of = [](const dataset& part) {
    const auto labels = part.field<std::int32_t>("labels");
    return std::vector<int>(labels.begin(), labels.end());
  };
  const auto [train, rest] = data.split(0.7, 3);
  CHECK(train.samples() == 7);
  CHECK(rest.samples() == 3);
  CHECK(order(train.batches(2)) == sorted(rows_of(train)));  // in the order of the data, each row with its label
  const dataset larger = data.split(0.3, 3).second;
  CHECK(order(larger.batches(2)) == sorted(rows_of(larger)));
  std::vector<int> both = rows_of(train), others = rows_of(rest);
  both.insert(both.end(), others.begin(), others.end());
  CHECK(sorted(both) == ascending);
  CHECK(rows_of(data.split(0.7, 3).second) == rows_of(rest));
  CHECK(rows_of(data.split(0.7, 4).second) != rows_of(rest));
  CHECK(data.split(0.001, 0).first.samples() == 1);
  CHECK(data.split(0.999, 0).second.samples() == 1);
  for (const double fraction : {0.0, 1.0, -0.5, 1.5, std::numeric_limits<double>::quiet_NaN()})
    CHECK_THROWS_WITH_AS(data.split(fraction, 0), doctest::Contains("choose one between 0 and 1"), error);
  CHECK_THROWS_WITH_AS(data.select(std::array{4}).split(0.5, 0), doctest::Contains("too few for two parts"), error);
}

TEST_CASE("rows are selected in any order, and a field is changed in place") {
  dataset data = ten();
  const dataset chosen = data.select(std::array{7, 2, 2});
  CHECK(order(chosen.batches(3)) == std::vector<int>{7, 2, 2});
  CHECK_THROWS_WITH_AS(data.select(std::array{10}), "the dataset has no row 10; rows are 0 to 9", error);
  CHECK_THROWS_AS(data.select(std::array{-1}), error);
  CHECK_THROWS_AS(data.select({}), error);
  for (std::int32_t& label : data.field<std::int32_t>("labels")) label += 5;
  CHECK(static_cast<const dataset&>(data).field<std::int32_t>("labels")[9] == 14);
  CHECK_THROWS_WITH_AS(data.field<float>("labels"), "field \"labels\" is int32; read it as that", error);
  CHECK_THROWS_WITH_AS(data.field<float>("input"), "the dataset has no field \"input\"; it has inputs, labels", error);
}

TEST_CASE("a stream goes from epoch to epoch, and may begin anywhere") {
  const dataset data = ten();
  const auto labels_from = [&](batch_order how) {
    std::vector<int> labels;
    const auto stream = data.open(how);
    while (const batch* b = stream->next())
      for (int i = 0; i < b->samples(); ++i)
        labels.push_back(static_cast<const std::int32_t*>(b->find("labels")->data)[i]);
    CHECK(stream->next() == nullptr);
    return labels;
  };
  std::vector<int> all = order(data.shuffled(4, 9, 0));
  for (const int label : order(data.shuffled(4, 9, 1))) all.push_back(label);
  const batch_order how{.size = 4, .shuffled = true, .seed = 9, .epochs = 2};
  CHECK(labels_from(how) == all);
  for (const long first : {0L, 1L, 2L, 3L}) {
    batch_order later = how;
    later.first = {0, first};
    const auto skipped = (std::min)(4 * first, 10L);
    CHECK(labels_from(later) == std::vector<int>(all.begin() + skipped, all.end()));
  }
  CHECK(labels_from({.size = 4}) == ascending);
  CHECK(labels_from({.size = 4, .first = {1, 0}}).empty());
  CHECK_THROWS_WITH_AS(data.open({.size = 4, .first = {0, 4}}), doctest::Contains("the first batch is 4"), error);
  CHECK_THROWS_AS(data.open({.size = 4, .first = {0, -1}}), error);
}

TEST_CASE("rows that do not fit are rejected") {
  const std::vector<float> seven(7), none;
  CHECK_THROWS_WITH_AS(
      dataset{}.with("inputs", 3, seven),
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
