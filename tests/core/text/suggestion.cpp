#include <gpipe/core/text/suggestion.hpp>

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace gpipe::detail;

TEST_CASE("the distance of two words") {
  CHECK(letters_apart("", "abc") == 3);
  CHECK(letters_apart("kitten", "sitting") == 3);
  CHECK(letters_apart("same", "same") == 0);
  CHECK(letters_apart("bets", "best") == 1);
  CHECK(letters_apart("abcd", "badc") == 2);
}

TEST_CASE("a word that differs in few letters is meant") {
  const std::vector<std::string> known{"inputs", "labels", "weights"};
  CHECK(meant_by("input", known) == "inputs");
  CHECK(meant_by("label", known) == "labels");
  CHECK(meant_by("weigths", known) == "weights");
  CHECK(meant_by("id", known).empty());
  CHECK(meant_by("x", known).empty());
  CHECK(meant_by(std::string(100'000, 'i'), known).empty());
  CHECK(meant_by("--stage", std::vector<std::string>{"--schedule", "--stages"}) == "--stages");
}

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
