// sanitizers: address

#include <gpipe/train/data/row_order.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include <gpipe/core/error.hpp>

using namespace gpipe;
using gpipe::detail::row_order;

namespace {

/// The rows of an epoch, asked for `size` at a time.
std::vector<int> epoch_of(row_order& order, int samples, int size, bool shuffled, std::uint64_t epoch) {
  std::vector<int> all(static_cast<std::size_t>(samples));
  order.begin(shuffled, 1, epoch);
  for (int at = 0; at < samples; at += size)
    order.rows(at, std::span(all).subspan(static_cast<std::size_t>(at),
                                          static_cast<std::size_t>((std::min)(size, samples - at))));
  return all;
}

std::vector<int> ascending(int samples) {
  std::vector<int> all(static_cast<std::size_t>(samples));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

}  // namespace

TEST_CASE("every order is a permutation, for blocks and windows of any size") {
  for (const int samples : {1, 2, 7, 64, 103})
    for (const int rows : {0, 1, 3, 10, 200})
      for (const int mixed : {1, 2, 5}) {
        CAPTURE(samples);
        CAPTURE(rows);
        CAPTURE(mixed);
        row_order order(samples, {rows, mixed});
        const std::vector<int> first = epoch_of(order, samples, 7, true, 0);
        std::vector<int> sorted = first;
        std::sort(sorted.begin(), sorted.end());
        CHECK(sorted == ascending(samples));
        CHECK(epoch_of(order, samples, 7, false, 0) == ascending(samples));
        CHECK(epoch_of(order, samples, 11, true, 0) == first);  // whatever is asked for at a time
        if (samples > 60) CHECK(epoch_of(order, samples, 7, true, 1) != first);
      }
}

TEST_CASE("a window's rows are of its blocks, and are read anywhere without those before") {
  row_order order(103, {5, 4});
  const std::vector<int> all = epoch_of(order, 103, 1, true, 3);
  order.begin(true, 1, 3);
  int row = -1;
  for (const int at : {90, 3, 50, 102, 0}) {
    order.rows(at, {&row, 1});
    CHECK(row == all[static_cast<std::size_t>(at)]);
    const auto window = order.window();
    CHECK(window.size() <= 4);
    CHECK(std::find(window.begin(), window.end(), row / 5) != window.end());
  }
}

TEST_CASE("each window has an order of its own") {
  // Blocks of one row: the place of a row in its window is that of its block.
  constexpr int mixed = 12, windows = 20;
  row_order order(mixed * windows, {1, mixed});
  const std::vector<int> all = epoch_of(order, mixed * windows, 5, true, 1);
  std::vector<std::vector<int>> orders;
  for (int w = 0; w < windows; ++w) {
    std::vector<int> its;
    const auto* first = all.data() + w * mixed;
    int row = -1;
    order.rows(w * mixed, {&row, 1});  // enters the window
    for (int i = 0; i < mixed; ++i)
      its.push_back(
          static_cast<int>(std::find(order.window().begin(), order.window().end(), first[i]) - order.window().begin()));
    orders.push_back(its);
  }
  std::sort(orders.begin(), orders.end());
  CHECK(std::adjacent_find(orders.begin(), orders.end()) == orders.end());
}

TEST_CASE("a set of one window is shuffled as a whole") {
  row_order whole(50, {}), one(50, {10, 5}), two(50, {10, 4});
  CHECK(epoch_of(one, 50, 8, true, 2) == epoch_of(whole, 50, 8, true, 2));
  CHECK(epoch_of(two, 50, 8, true, 2) != epoch_of(whole, 50, 8, true, 2));
}

TEST_CASE("two rows are shuffled as well") {
  row_order order(2, {});
  int swapped = 0;
  for (std::uint64_t epoch = 0; epoch < 64; ++epoch) swapped += epoch_of(order, 2, 2, true, epoch)[0] == 1;
  CHECK(swapped > 16);
  CHECK(swapped < 48);
}

TEST_CASE("blocks and windows have at least one row") {
  CHECK_THROWS_WITH_AS(row_order(5, {-1, 1}), doctest::Contains("the rows of a block are -1"), error);
  CHECK_THROWS_WITH_AS(row_order(5, {1, 0}), "mixed is 0; choose at least 1 block", error);
}
