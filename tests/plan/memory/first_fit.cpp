#include <gpipe/plan/memory/first_fit.hpp>

#include <doctest/doctest.h>

using gpipe::detail::first_fit_from_top;

namespace {

// A place is given by its lower end.
constexpr bool takes_the_smallest_gap() {
  first_fit_from_top h;
  bool right = h.place(0, 30) == 30 && h.place(1, 10) == 40 && h.place(2, 20) == 60 && h.place(3, 10) == 70;
  h.drop(0);
  h.drop(2);
  right = right && h.place(4, 15) == 55;  // of 30 and of 20
  right = right && h.place(5, 15) == 15 && h.place(6, 15) == 30;
  right = right && h.depth() == 70 && h.place(7, 1) == 56 && h.place(8, 5) == 75;
  return right && h.deepest() == 75;
}
static_assert(takes_the_smallest_gap());

constexpr bool goes_no_deeper_than_allowed() {
  first_fit_from_top h;
  return h.place(-1, 30, 40) == 30 && h.place(1, 20, 40) == 0 && h.place(1, 10, 40) == 40 && h.deepest() == 40;
}
static_assert(goes_no_deeper_than_allowed());

}  // namespace

TEST_CASE("the smallest gap that is large enough is taken, wherever it lies") {
  // The gaps, from the upper end, with buffers of 1 between them; a buffer of 15.
  const auto taken = [](std::int64_t a, std::int64_t b, std::int64_t c) {
    first_fit_from_top h;
    const std::int64_t gaps[] = {a, b, c};
    for (int i = 0; i < 3; ++i) h.place(2 * i, gaps[i]), h.place(2 * i + 1, 1);
    for (int i = 0; i < 3; ++i) h.drop(2 * i);
    const std::int64_t begin = h.place(6, 15) - 15;
    return begin == 0 ? 0 : begin == a + 1 ? 1 : begin == a + b + 2 ? 2 : 3;
  };
  CHECK(taken(20, 30, 40) == 0);
  CHECK(taken(30, 20, 40) == 1);
  CHECK(taken(40, 30, 20) == 2);
  CHECK(taken(10, 20, 14) == 1);  // the others are too small
  CHECK(taken(15, 16, 17) == 0);
  CHECK(taken(20, 20, 20) == 0);  // of equal gaps the uppermost
  CHECK(taken(10, 14, 12) == 3);  // below all
}

TEST_CASE("a dropped buffer frees its bytes, and the maximum depth is recorded") {
  first_fit_from_top h;
  CHECK(h.place(0, 64) == 64);
  CHECK(h.place(1, 64) == 128);
  h.drop(1);
  h.drop(7);  // is not here
  CHECK(h.depth() == 64);
  h.drop(0);
  CHECK(h.depth() == 0);
  CHECK(h.deepest() == 128);
}

TEST_CASE("a kept buffer joins its neighbours and cannot be dropped") {
  first_fit_from_top h;
  for (int i = 0; i < 1000; ++i) {
    CHECK(h.place(i, 10) == 10 * i + 10);
    h.keep(i);
  }
  CHECK(h.place(1000, 10) == 10010);
  h.drop(500);
  CHECK(h.place(1001, 10) == 10020);
}

TEST_CASE("more buffers than runs still do not overlap") {
  first_fit_from_top h;
  for (int i = 0; i < 200; ++i) CHECK(h.place(i, 10) == 10 * i + 10);
  for (int i = 0; i < 200; ++i) h.drop(i);
  CHECK(h.depth() > 0);  // the joined buffers
  CHECK(h.place(0, 10) == 10);
}
