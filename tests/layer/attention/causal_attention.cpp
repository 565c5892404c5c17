// optimize: yes

#include <gpipe/layer/attention/causal_attention.hpp>

#include <doctest/doctest.h>

#include <type_traits>

using namespace gpipe;
using namespace gpipe::detail;

using two_heads = bound<causal_attention<2>, tensor<float, 3, 8>>;
static_assert(std::is_same_v<two_heads::output, tensor<float, 3, 8>>);

constexpr std::size_t parameters = [] {
  std::size_t sum = 0;
  for (const parameter& p : two_heads::parameters) sum += p.extents.size();
  return sum;
}();
static_assert(parameters == 4 * 8 * 8 + 4 * 8);

// No buffer that it keeps grows with the square of the number of tokens.
static_assert(two_heads::extras[0].size == 3 * 24 && two_heads::extras[1].size == 24 && two_heads::extras[2].size == 6);
static_assert(two_heads::keeps.input && !two_heads::keeps.output);

// Four projections of 3 tokens, and two products over the 6 pairs of a token with itself or an earlier token.
static_assert(two_heads::cost.forward == 4 * (2 * 3 * 8 * 8) + 2 * (2 * 6 * 8) + 10 * 2 * 3 * 4);
static_assert(two_heads::cost.backward_input > 2 * two_heads::cost.forward - 4 * (2 * 3 * 8 * 8));

// Pairs, where the last query sees the last key: 3 + 4 + 5, and 0 + 0 + 1 + 2 + 3.
static_assert(attended_pairs(true, 3, 5) == 12 && attended_pairs(true, 5, 3) == 6 && attended_pairs(false, 3, 5) == 15);

TEST_CASE("the parameters of attention have PyTorch's names") {
  CHECK(doctest::String(two_heads::parameters[0].name) == "in_proj_weight");
  CHECK(doctest::String(two_heads::parameters[2].path_name()) == "out_proj.weight");
  CHECK(two_heads::name == "causal_attention<2>");
}
