// sanitizers: address

#include <gpipe/train/checkpoint/names/stored_array.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

using namespace gpipe::detail;

namespace {

/// A file with the numbers 0, 1, ... in its order, taken in blocks of `at_once` indices of the first axis.
template <class T>
std::vector<T> taken(const axis_order& order, std::size_t at_once) {
  std::vector<T> file(order.size()), here(order.size());
  for (std::size_t i = 0; i < file.size(); ++i) file[i] = static_cast<T>(i);
  const std::size_t row = order.size() / order.extent(0);
  for (std::size_t first = 0; first < order.extent(0); first += at_once)
    order.take(std::as_bytes(std::span(file)).data(), sizeof(T), first, (std::min)(at_once, order.extent(0) - first),
               std::as_writable_bytes(std::span(here).subspan(first * row)).data());
  return here;
}

template <class T>
void has_order(std::size_t a, std::size_t b, std::size_t c, std::size_t d, const int (&in_file)[4]) {
  const std::size_t n[] = {a, b, c, d};
  const axis_order order({a, b, c, d}, {in_file[0], in_file[1], in_file[2], in_file[3]});
  std::vector<T> want;
  std::size_t i[4];
  for (i[0] = 0; i[0] < a; ++i[0])
    for (i[1] = 0; i[1] < b; ++i[1])
      for (i[2] = 0; i[2] < c; ++i[2])
        for (i[3] = 0; i[3] < d; ++i[3]) {
          std::size_t at = 0;
          for (const int axis : in_file) at = at * n[axis] + i[axis];
          want.push_back(static_cast<T>(at));
        }
  CAPTURE(a);
  CAPTURE(b);
  CAPTURE(c);
  CAPTURE(d);
  CAPTURE(in_file[0]);
  CAPTURE(in_file[1]);
  CAPTURE(in_file[2]);
  CAPTURE(in_file[3]);
  CAPTURE(sizeof(T));
  std::vector<T> numbers(want.size());
  for (std::size_t k = 0; k < numbers.size(); ++k) numbers[k] = static_cast<T>(k);
  CHECK(order.same() == (want == numbers));
  if (order.same()) return;
  for (const std::size_t at_once : {1u, 3u, 100u}) CHECK(taken<T>(order, at_once) == want);
  // The result goes back.
  std::vector<T> back(want.size());
  const axis_order inverse = order.inverse();
  inverse.take(std::as_bytes(std::span(want)).data(), sizeof(T), 0, inverse.extent(0),
               std::as_writable_bytes(std::span(back)).data());
  CHECK(back == numbers);
}

}  // namespace

TEST_CASE("an array is taken in every order of its axes, and goes back") {
  int in_file[] = {0, 1, 2, 3};
  do {
    has_order<std::uint16_t>(2, 3, 4, 5, in_file);
    has_order<std::uint16_t>(3, 1, 17, 2, in_file);
    has_order<float>(1, 33, 2, 18, in_file);
    has_order<double>(18, 1, 1, 20, in_file);
    has_order<std::uint8_t>(1, 1, 9, 1, in_file);
    has_order<float>(2, 2, 2, 2, in_file);
  } while (std::next_permutation(in_file, in_file + 4));
}
