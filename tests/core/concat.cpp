#include <gpipe/core/concat.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

using gpipe::detail::concat;

TEST_CASE("words and numbers are joined in order") {
  const std::string layer = "relu";
  CHECK(concat({"stage ", 3, " of ", std::size_t{8}, ": ", layer, std::string_view("!")}) == "stage 3 of 8: relu!");
  CHECK(concat({}).empty());
}

TEST_CASE("the smallest and largest numbers are written in full") {
  CHECK(concat({std::numeric_limits<std::int64_t>::min()}) == "-9223372036854775808");
  CHECK(concat({std::numeric_limits<std::uint64_t>::max()}) == "18446744073709551615");
  CHECK(concat({0, -1}) == "0-1");
}
