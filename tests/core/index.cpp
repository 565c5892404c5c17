// sanitizers: none

#include <gpipe/core/index.hpp>

#include <doctest/doctest.h>

#include <type_traits>
#include <vector>

TEST_CASE("an int indexes a vector without a warning") {
  static_assert(std::is_same_v<decltype(gpipe::detail::index(3)), std::size_t>);
  const std::vector<int> numbers{4, 5, 6};
  CHECK(numbers[gpipe::detail::index(2)] == 6);
}
