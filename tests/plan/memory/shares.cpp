#include <gpipe/plan/memory/shares.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include <gpipe/core/descriptions/adafactor.hpp>
#include <gpipe/layer.hpp>
#include <gpipe/model/model.hpp>

using namespace gpipe;
using namespace gpipe::detail;

namespace {

/// Bytes of the layers' parameters: 4224, 0, 128, 0, 4224, 0, 4224, 0, 0.
struct net
    : model<input<float, 32>, linear<32>, relu, bias, relu, linear<32>, relu, linear<32>, relu, softmax_cross_entropy> {
};
constexpr int first[] = {0, 9};
constexpr stage_view whole(network_of<net>, {first, 1}, 0);

std::vector<stage_share> shares_of(const stage_view& stage, int replicas, const tensor_rule_memory* rule = nullptr) {
  std::vector<stage_share> all;
  each_share(stage, replicas, rule, [&](int number, const stage_share& its) {
    CHECK(number == static_cast<int>(all.size()));
    all.push_back(its);
  });
  return all;
}

static_assert(share_of(0, 100, 400, 4) == 0 && share_of(100, 100, 400, 4) == 1 && share_of(300, 100, 400, 4) == 3);
static_assert(share_of(400, 0, 400, 4) == 3 && share_of(0, 0, 0, 4) == 0);
static_assert(share_of_replica(whole, 1, 0).bytes == 3 * 4224 + 128);

}  // namespace

TEST_CASE("shares are neighbouring layers, in which each layer is once") {
  const auto three = shares_of(whole, 3);
  CHECK(three[0] == stage_share{0, 2, 0, 4224, 0});
  CHECK(three[1] == stage_share{2, 5, 4224, 4224 + 128, 0});
  CHECK(three[2] == stage_share{5, 9, 2 * 4224 + 128, 4224, 0});
  CHECK(largest_share(whole, 3, nullptr).bytes == 4224 + 128);
  for (int R = 1; R < 12; ++R) {
    const auto all = shares_of(whole, R, tensor_memory<adafactor>());
    REQUIRE(static_cast<int>(all.size()) == R);
    std::int64_t arrays = 0;
    for (int r = 0; r < R; ++r) {
      const auto& its = all[static_cast<std::size_t>(r)];
      CHECK(its.first == (r == 0 ? 0 : all[static_cast<std::size_t>(r) - 1].last));
      CHECK(its.begin == (r == 0 ? 0 : all[static_cast<std::size_t>(r) - 1].end()));
      CHECK(its.bytes <= (3 * 4224 + 128) / R + 4224);
      CHECK(its.bytes <= largest_share(whole, R, tensor_memory<adafactor>()).bytes);
      arrays += its.arrays;
    }
    CHECK(all.back().last == 9);
    CHECK(all.back().end() == 3 * 4224 + 128);
    CHECK(arrays == shares_of(whole, 1, tensor_memory<adafactor>())[0].arrays);
  }
}

TEST_CASE("a replica reports the layers of its share, and the first all if the pass does not commit") {
  CHECK(reported_layers(whole, 1, 0, true) == layer_range{0, 9});
  CHECK(reported_layers(whole, 1, 2, true).empty());
  CHECK(reported_layers(whole, 3, 1, true) == layer_range{2, 5});
  CHECK(reported_layers(whole, 3, 0, false) == layer_range{0, 9});
  CHECK(reported_layers(whole, 3, 1, false).empty());
}
