#include <gpipe/plan/memory/shares.hpp>

#include <doctest/doctest.h>

#include <array>
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

namespace {

template <class Net>
std::vector<bucket> buckets(int begin, int end, int shares = 1) {
  const int cut_at[] = {begin, end};
  std::vector<bucket> found;
  each_bucket(
      stage_view(network_of<Net>, {cut_at, 1}, 0), [&](const bucket& b) { found.push_back(b); }, shares);
  return found;
}

constexpr std::size_t wide = sizeof(float) * 512 * 513;
struct three_wide
    : model<input<float, 16>, linear<512>, gelu, linear<512>, gelu, linear<512>, linear<16>, softmax_cross_entropy> {};
/// One layer has far more parameters than all others.
struct steep : model<input<float, 4096>, linear<8192>, repeat<40, linear<128>>, softmax_cross_entropy> {};
struct deep : model<input<float, 512>, repeat<64, residual<linear<512>>>, softmax_cross_entropy> {};
/// The last layer is tied to the first.
struct lends : model<input<float, 512>, tied<"w", linear<512>>, gelu, linear<512>, tied<"w", linear<512>>,
                     softmax_cross_entropy> {};

}  // namespace

TEST_CASE("buckets hold whole layers, the last ones first, and every layer once") {
  const std::size_t narrow = sizeof(float) * 512 * 17, head = sizeof(float) * 16 * 513;
  CHECK(buckets<three_wide>(0, 7) == std::vector<bucket>{{4, 7, narrow + wide, wide + head, true},
                                                         {2, 4, narrow, wide, true},
                                                         {0, 2, 0, narrow, false}});
  CHECK(buckets<three_wide>(1, 3) == std::vector<bucket>{{2, 3, 0, wide, true}});
  CHECK(buckets<three_wide>(5, 7) == std::vector<bucket>{{5, 7, 0, head, false}});
  CHECK(buckets<three_wide>(6, 7).empty());
}

TEST_CASE("buckets are few, and only the last may be small") {
  const std::vector<bucket> all = buckets<deep>(0, network_of<deep>.layer_count);
  CHECK(all.size() == max_buckets);
  std::size_t end = 64 * wide;
  int last = network_of<deep>.layer_count;
  for (const bucket& b : all) {
    CHECK(b.begin + b.bytes == end);
    CHECK(b.last == last);
    CHECK(b.bytes >= 4 * wide);
    end = b.begin, last = b.first;
  }
  CHECK(end == 0);
  CHECK(buckets<steep>(0, network_of<steep>.layer_count).size() == 1);
}

TEST_CASE("a layer that gets gradients from tied layers is not summed early") {
  CHECK(buckets<lends>(0, 5) == std::vector<bucket>{{2, 5, wide, wide, true}, {0, 2, 0, wide, false, true}});
  CHECK(buckets<lends>(0, 2) == std::vector<bucket>{{0, 2, 0, wide, false, true}});
  CHECK(buckets<lends>(3, 5).empty());
}

TEST_CASE("buckets of gradients that leave are of one share each, and small") {
  const int L = network_of<deep>.layer_count;
  for (const int R : {2, 3, 4}) {
    const std::vector<bucket> all = buckets<deep>(0, L, R);
    CHECK(all.size() == 64);
    for (const bucket& b : all) {
      CHECK(b.bytes == wide);
      each_share(stage_view(network_of<deep>, {std::array{0, L}.data(), 1}, 0), R, nullptr,
                 [&](int replica, const stage_share& its) {
                   CHECK((replica == b.owner) == (its.first <= b.first && b.last <= its.last));
                 });
    }
  }
  // A small layer of another share has a bucket of its own.
  const std::vector<bucket> all = buckets<steep>(0, network_of<steep>.layer_count, 8);
  CHECK(all.back().owner < all.front().owner);
  CHECK(buckets<lends>(0, 5, 2) ==
        std::vector<bucket>{{2, 5, wide, wide, true, false, 1}, {0, 1, 0, wide, false, true, 0}});
}

TEST_CASE("slices are adjacent, and the landing memory holds those of all buckets and little more") {
  for (int R = 2; R <= 5; ++R) {
    for (const std::size_t bytes : {std::size_t{0}, alignment, 7 * alignment, 1000 * alignment}) {
      CHECK(slice_begin(bytes, 0, R) == 0);
      CHECK(slice_begin(bytes, R, R) == bytes);
      const std::size_t largest = bytes - slice_begin(bytes, R - 1, R);
      CHECK(landing_bytes(bytes, R - 1) == largest * static_cast<std::size_t>(R - 1));
    }
    const auto needed = [R](const std::vector<bucket>& all, std::size_t& bytes) {
      std::size_t sum = 0;
      for (const bucket& b : all)
        bytes += b.bytes, sum += (b.bytes - slice_begin(b.bytes, R - 1, R)) * static_cast<std::size_t>(R - 1);
      return sum;
    };
    for (const auto& all : {buckets<three_wide>(0, 7), buckets<three_wide>(5, 7), buckets<three_wide>(6, 7),
                            buckets<deep>(0, 40), buckets<deep>(0, network_of<deep>.layer_count)}) {
      std::size_t bytes = 0;
      const std::size_t needs = needed(all, bytes), planned = landing_of_buckets(bytes, R - 1);
      CHECK(planned >= needs);
      CHECK(planned - needs <= max_buckets * alignment * static_cast<std::size_t>(R - 1));
    }
  }
}
