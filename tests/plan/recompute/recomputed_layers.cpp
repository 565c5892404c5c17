#include <gpipe/plan/recompute/recomputed_layers.hpp>

#include <doctest/doctest.h>

#include <vector>

#include <gpipe/layer/activation/gelu.hpp>
#include <gpipe/layer/linear/linear.hpp>
#include <gpipe/layer/loss/softmax_cross_entropy.hpp>
#include <gpipe/layer/normalization/layer_norm.hpp>
#include <gpipe/model/model.hpp>

using namespace gpipe;

namespace {

// 0 layer_norm, 1 linear, 2 gelu, 3 linear, 4 add, 5 layer_norm, 6 linear, 7 softmax_cross_entropy
struct net : model<input<float, 8>, residual<layer_norm, linear<16>, gelu, linear<8>>, layer_norm, linear<4>,
                   softmax_cross_entropy> {};

std::vector<int> placed(int first, int last, std::initializer_list<int> layers) {
  bool marked[8]{};
  for (const int l : layers) marked[l] = true;
  std::vector<int> before(8, -7);
  gpipe::detail::place_recomputes(network_of<net>, first, last, marked, before.data());
  return before;
}
constexpr int none = -1, outside = -7;

}  // namespace

TEST_CASE("a layer runs again before the first backward that reads what it writes") {
  CHECK(placed(0, 8, {}) == std::vector<int>(8, none));
  // The linear layers keep their inputs: the norm's output is read by layer 1, the GELU's by layer 3.
  CHECK(placed(0, 8, {0, 2}) == std::vector<int>{1, none, 3, none, none, none, none, none});
  // The first linear layer's output is read by the GELU, which runs again before layer 3.
  CHECK(placed(0, 8, {0, 1, 2}) == std::vector<int>{3, 3, 3, none, none, none, none, none});
}

TEST_CASE("a layer whose output nothing reads in backward runs again only for a reader that does") {
  CHECK(placed(0, 8, {3}) == std::vector<int>(8, none));
  CHECK(placed(0, 8, {3, 4}) == std::vector<int>{none, none, none, 5, 5, none, none, none});
  CHECK(placed(0, 8, {3, 4, 5}) == std::vector<int>{none, none, none, 6, 6, 6, none, none});
}

TEST_CASE("a stage looks at its own layers alone") {
  CHECK(placed(2, 5, {2, 3, 4}) == std::vector<int>{outside, outside, 3, none, none, outside, outside, outside});
}
