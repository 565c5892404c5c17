#include <gpipe/core/text/glob.hpp>

#include <doctest/doctest.h>

using gpipe::detail::matches;

static_assert(matches("h.*.ln_1.weight", "h.0.ln_1.weight") && matches("h.*.ln_1.weight", "h.11.ln_1.weight"));
static_assert(!matches("h.*.ln_1.weight", "h.0.ln_2.weight") && !matches("h.*.ln_1.weight", "h.0.ln_1.weight_2"));
static_assert(matches("*.bias", "3.bias") && !matches("*.bias", "bias") && matches("*bias", "bias"));
static_assert(matches("", "") && matches("*", "") && matches("**", "x") && !matches("", "x") && !matches("x", ""));
static_assert(matches("?.weight", "3.weight") && !matches("?.weight", "13.weight"));

TEST_CASE("a star tries every length") {
  CHECK(matches("*ab*ab", "aabbabab"));
  CHECK(!matches("*ab*ab", "aabb"));
  CHECK(matches("a*a*a*a*b", "aaaaaaaaaaaaaaaaaaaaaaaaaaaab"));
  CHECK(!matches("a*a*a*a*b", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaa"));
}
