#include <gpipe/train/data/batches_by_length.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gpipe/core/error.hpp>

using namespace gpipe;

namespace {

constexpr int rows = 100, row = 12;

/// Row i has 1 + 7 i mod 10 positions, the numbers 100 i, 100 i + 1, ..., and then zeros.
const std::vector<int> positions = [] {
  std::vector<int> found;
  for (int i = 0; i < rows; ++i) found.push_back(1 + 7 * i % 10);
  return found;
}();
const dataset data = [] {
  std::vector<std::int32_t> inputs, lengths, kinds;
  std::vector<float> weights;
  for (int i = 0; i < rows; ++i) {
    const int own = positions[static_cast<std::size_t>(i)];
    for (int t = 0; t < row; ++t) {
      inputs.push_back(t < own ? 100 * i + t : 0);
      weights.push_back(t < own ? 1.0F : 0.0F);
    }
    lengths.push_back(own);
    kinds.push_back(i % 3), kinds.push_back(i);
  }
  return dataset{}
      .with("inputs", row, inputs)
      .with("weights", row, weights)
      .with("lengths", 1, lengths)
      .with_unread("kinds", 2, kinds);
}();

struct read_batch {
  int length, samples;
  std::vector<int> rows;
  bool operator==(const read_batch&) const = default;
};

/// The batches of a stream, whose numbers are checked against the rows of the dataset.
std::vector<read_batch> read(const data_source& from, const batch_order& order) {
  std::vector<read_batch> found;
  const std::unique_ptr<data_stream> stream = from.open(order);
  while (const batch* const b = stream->next()) {
    const auto n = static_cast<std::size_t>(b->samples());
    const int length = static_cast<int>(b->find("inputs")->elements / n);
    found.push_back({length, b->samples(), {b->dataset_rows(), b->dataset_rows() + n}});
    REQUIRE(b->find("weights")->elements == n * static_cast<std::size_t>(length));
    REQUIRE(b->find("lengths")->elements == n);
    REQUIRE(b->find("kinds")->elements == 2 * n);
    REQUIRE(b->find("kinds")->unread);
    const auto* inputs = static_cast<const std::int32_t*>(b->find("inputs")->data);
    const auto* weights = static_cast<const float*>(b->find("weights")->data);
    const auto* lengths = static_cast<const std::int32_t*>(b->find("lengths")->data);
    const auto* kinds = static_cast<const std::int32_t*>(b->find("kinds")->data);
    for (std::size_t s = 0; s < n; ++s) {
      const int of = found.back().rows[s], own = std::min(positions[static_cast<std::size_t>(of)], length);
      REQUIRE(kinds[2 * s + 1] == of);
      REQUIRE(lengths[s] == own);
      for (int t = 0; t < length; ++t) {
        const std::size_t at = s * static_cast<std::size_t>(length) + static_cast<std::size_t>(t);
        REQUIRE(inputs[at] == (t < own ? 100 * of + t : 0));
        REQUIRE(weights[at] == (t < own ? 1.0F : 0.0F));
      }
    }
  }
  return found;
}

std::string message(const dataset& of, const std::vector<int>& counts, const by_length_options& how) {
  try {
    const batches_by_length made(of, counts, how);
  } catch (const error& e) {
    return e.what();
  }
  return "";
}
bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("each sequence is read once an epoch, in a length that holds it, in batches of about as many tokens") {
  const batches_by_length sorted(data, positions, {.lengths = {3, 6, 10}, .tokens = 30});
  CHECK(sorted.samples() == rows);
  CHECK(sorted.too_long() == 0);
  // 30 rows of at most 3 positions make 3 batches of 10; 30 of at most 6 make 6 of 5; 40 make 13 of 3 and one of 1.
  CHECK(sorted.batches_of(3) == 3);
  CHECK(sorted.batches_of(6) == 6);
  CHECK(sorted.batches_of(10) == 14);
  CHECK(sorted.own().count == 23);
  CHECK(sorted.own().tokens == 30);
  const auto all = read(sorted, {.shuffled = true, .seed = 4, .epochs = 2});
  REQUIRE(all.size() == 46);
  for (const int epoch : {0, 1}) {
    std::set<int> seen;
    std::map<int, int> batches;
    int smaller = 0;
    for (std::size_t b = 0; b < 23; ++b) {
      const read_batch& it = all[static_cast<std::size_t>(epoch) * 23 + b];
      ++batches[it.length];
      smaller += it.samples < 30 / it.length;
      CHECK(it.samples <= 30 / it.length);
      for (const int i : it.rows) {
        CHECK(seen.insert(i).second);
        CHECK(positions[static_cast<std::size_t>(i)] <= it.length);
      }
    }
    CHECK(seen.size() == rows);
    CHECK(batches == std::map<int, int>{{3, 3}, {6, 6}, {10, 14}});
    CHECK(smaller == 1);
  }
  CHECK(!std::equal(all.begin(), all.begin() + 23, all.begin() + 23));  // epochs differ
  CHECK(read(sorted, {.shuffled = true, .seed = 5}) != read(sorted, {.shuffled = true, .seed = 4}));
  // Lengths are mixed, and not one after the other.
  CHECK(!std::is_sorted(all.begin(), all.begin() + 23,
                        [](const read_batch& a, const read_batch& b) { return a.length < b.length; }));
}

TEST_CASE("the rest of a length goes to the next longer one") {
  const batches_by_length sorted(data, positions, {.lengths = {3, 6, 10}, .tokens = 33});  // 11, 5 and 3 sequences
  // 30 = 2 x 11 + 8; 30 + 8 = 7 x 5 + 3; 40 + 3 = 14 x 3 + 1
  CHECK(sorted.batches_of(3) == 2);
  CHECK(sorted.batches_of(6) == 7);
  CHECK(sorted.batches_of(10) == 15);
  const auto all = read(sorted, {});
  REQUIRE(all.size() == 24);
  std::size_t samples = 0;
  for (const read_batch& it : all) samples += it.rows.size();
  CHECK(samples == rows);
  CHECK(all.back().samples == 1);
  // In the order of the data without a shuffle: lengths ascend.
  CHECK(std::is_sorted(all.begin(), all.end(),
                       [](const read_batch& a, const read_batch& b) { return a.length < b.length; }));
  CHECK(read(sorted, {}) == all);
}

TEST_CASE("a stream that begins anywhere goes on with the same batches") {
  const batches_by_length sorted(data, positions, {.lengths = {3, 6, 10}, .tokens = 33});
  const auto all = read(sorted, {.shuffled = true, .seed = 2, .epochs = 3});
  const long count = sorted.own().count;
  for (std::uint64_t epoch = 0; epoch < 3; ++epoch)
    for (long b = 0; b <= count; ++b) {
      const auto rest = read(sorted, {.shuffled = true, .seed = 2, .first = {epoch, b}, .epochs = 3});
      CHECK(std::equal(all.begin() + static_cast<long>(epoch) * count + b, all.end(), rest.begin(), rest.end()));
    }
  CHECK_THROWS_AS(sorted.open({.first = {0, count + 1}}), error);
  CHECK_THROWS_AS(sorted.open({.first = {0, -1}}), error);
}

TEST_CASE("a sequence that is too long is refused, cut or dropped") {
  CHECK(message(data, positions, {.lengths = {3, 6}}) ==
        "row 1 has 8 positions, and the longest length is 6; 40 rows are too long; choose .too_long = too_long::cut or "
        "too_long::drop, or train a longer length");
  const batches_by_length dropped(data, positions, {.lengths = {3, 6}, .tokens = 30, .too_long = too_long::drop});
  CHECK(dropped.samples() == 60);
  CHECK(dropped.too_long() == 40);
  for (const read_batch& it : read(dropped, {}))
    for (const int i : it.rows) CHECK(positions[static_cast<std::size_t>(i)] <= 6);
  const batches_by_length cut(data, positions, {.lengths = {3, 6}, .tokens = 30, .too_long = too_long::cut});
  CHECK(cut.samples() == rows);
  CHECK(cut.too_long() == 40);
  CHECK(cut.batches_of(6) == 14);
  CHECK(read(cut, {}).size() == 17);  // which compares the first 6 numbers of rows that are longer, and their lengths
}

TEST_CASE("mistakes are errors that name what is wrong") {
  const by_length_options good{.lengths = {3, 6, 10}};
  CHECK(message(data, positions, good).empty());
  CHECK(has(message(data, positions, {}), "lengths is empty; give those of the training"));
  CHECK(
      has(message(data, positions, {.lengths = {6, 3}}), "lengths has 3 behind 6; give positive numbers that ascend"));
  CHECK(has(message(data, positions, {.lengths = {0, 3}}), "lengths has 0; give positive"));
  CHECK(has(message(data, positions, {.lengths = {10}, .tokens = 0}), "tokens is 0; choose at least"));
  CHECK(has(message(data, {1, 2}, good), "there are 2 numbers of positions, and the dataset has 100 rows"));
  CHECK(has(message(data, positions, {.lengths = {16}}), "has rows of 12, and the longest length is 16; pad its rows"));
  CHECK(has(message(data, positions, {.lengths = {10}, .fields = {"words"}}), "the dataset has no field \"words\""));
  CHECK(has(message(dataset{}.with("words", 2, std::vector<float>{1, 2}), {1}, good), "no field \"inputs\""));
  std::vector<int> negative = positions;
  negative[3] = -1;
  CHECK(has(message(data, negative, good), "row 3 has -1 positions"));
  const batches_by_length sorted(data, positions, good);
  CHECK_THROWS_AS(sorted.batches_of(4), error);
}
