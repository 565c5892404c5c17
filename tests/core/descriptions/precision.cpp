#include <gpipe/core/descriptions/precision.hpp>

#include <doctest/doctest.h>

#include <string_view>

TEST_CASE("each precision has a distinct name") {
  CHECK(name_of(gpipe::precision::float32) == std::string_view("float32"));
  CHECK(name_of(gpipe::precision::bf16) == std::string_view("bf16"));
}
