#include <gpipe/core/descriptions/plan_choices.hpp>

#include <doctest/doctest.h>

#include <string_view>

using namespace gpipe;

TEST_CASE("the modes are distinct") {
  const recompute_mode modes[] = {recompute_mode::always, recompute_mode::except_last, recompute_mode::never,
                                  recompute_mode::as_needed};
  for (int a = 0; a < 4; ++a)
    for (int b = 0; b < a; ++b) CHECK(modes[a] != modes[b]);
}

TEST_CASE("each precision has a distinct name") {
  CHECK(name_of(precision::float32) == std::string_view("float32"));
  CHECK(name_of(precision::bf16) == std::string_view("bf16"));
}
