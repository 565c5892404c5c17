#include <gpipe/core/numbers/random.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <set>

using namespace gpipe;
using namespace gpipe::detail;

namespace {

constexpr bool equal(random_words got, random_words want) {
  for (int i = 0; i < 4; ++i)
    if (got.word[i] != want.word[i]) return false;
  return true;
}
constexpr std::uint32_t ones = 0xffffffff;

}  // namespace

// The known answers published by the paper's authors.
static_assert(equal(philox({{0, 0, 0, 0}}, 0, 0), {{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}}));
static_assert(equal(philox({{ones, ones, ones, ones}}, ones, ones),
                    {{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}}));

static_assert(uniform(0) == 0 && uniform(0x80000000) == 0.5F && uniform(ones) == 1 - 0x1p-24F);

// The numbers depend on a sample's position in the mini-batch, not on how the mini-batch is cut.
static_assert(equal(draw({.seed = 9, .step = 3, .layer_index = 5, .first_sample = 32}, 1, 7),
                    draw({.seed = 9, .step = 3, .layer_index = 5, .first_sample = 0}, 33, 7)));

// The place of each argument, on which the bits of every training depend.
static_assert(equal(draw({.seed = 0x8899aabbccddeeff,
                          .step = 0x0011223344556677,
                          .layer_index = 0xfedcba98,
                          .first_sample = 0x10203040},
                         0x01010101, 0xabcdef01),
                    philox({{0xabcdef01, 0x11213141, 0x44556677, 0xfedcba98}}, 0xccddeeff, 0x8899aabb ^ 0x00112233)));

TEST_CASE("every part of the key changes the numbers") {
  std::set<std::uint32_t> seen;
  const auto see = [&seen](const random_key& key, std::uint32_t sample, std::uint32_t quad) {
    CHECK(seen.insert(draw(key, sample, quad).word[0]).second);
  };
  see({}, 0, 0);
  see({.seed = 1}, 0, 0);
  see({.seed = std::uint64_t{1} << 32}, 0, 0);
  see({.step = 1}, 0, 0);
  see({.step = std::uint64_t{2} << 32}, 0, 0);
  see({.step = random_key::initializing}, 0, 0);
  see({.layer_index = 1}, 0, 0);
  see({}, 1, 0);
  see({}, 0, 1);
  see({}, 0, 1 << 16);
  see({}, 0, std::uint32_t{1} << 31);
  see({}, std::uint32_t{1} << 31, 0);
}

TEST_CASE("uniform numbers have the mean and the variance of a uniform distribution") {
  double sum = 0, squares = 0;
  constexpr int quads = 4096;
  for (std::uint32_t quad = 0; quad < quads; ++quad)
    for (const std::uint32_t word : draw({.seed = 42}, 0, quad).word) {
      const double u = double{uniform(word)};
      CHECK_MESSAGE((0 <= u && u < 1), u);
      sum += u;
      squares += u * u;
    }
  const double mean = sum / (4 * quads), variance = squares / (4 * quads) - mean * mean;
  CHECK(std::fabs(mean - 0.5) < 0.01);
  CHECK(std::fabs(variance - 1.0 / 12) < 0.002);
}
