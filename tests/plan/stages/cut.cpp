#include <gpipe/plan/stages/cut.hpp>

#include <doctest/doctest.h>

#include <vector>

#include <gpipe/layer/activation/relu.hpp>
#include <gpipe/model/model.hpp>

#include "support/layers.hpp"

using namespace gpipe;
using namespace gpipe::detail;
using namespace laws;

namespace {

constexpr int first[] = {0, 3, 5, 8};
constexpr cut three{first, 3};
static_assert(three.stage_of(-1) == -1 && three.stage_of(0) == 0 && three.stage_of(2) == 0 && three.stage_of(3) == 1 &&
              three.stage_of(4) == 1 && three.stage_of(5) == 2 && three.stage_of(7) == 2);

}  // namespace

TEST_CASE("one stage holds all layers") {
  constexpr int whole[] = {0, 8};
  CHECK(cut{whole, 1}.stage_of(0) == 0);
  CHECK(cut{whole, 1}.stage_of(7) == 0);
}

namespace {

template <class Net>
std::vector<stage_link> links(std::vector<int> cuts) {
  cuts.insert(cuts.begin(), 0);
  cuts.push_back(layers_of<Net>);
  std::vector<stage_link> found;
  find_links(network_of<Net>, cut{cuts.data(), static_cast<int>(cuts.size()) - 1},
             [&](const stage_link& l) { found.push_back(l); });
  return found;
}

struct chain : model<input<float, 4>, relu, relu, relu, halve, cross> {};
struct skipping
    : model<input<float, 8>, halve, cross, join, stash<"x">, relu, relu, pop<"x">, add, relu, pop<"x">, add> {};
struct integers : model<input<std::int32_t, 4>, lookup<float, 3, 1>, stash<"x">, signs, next, pop<"x">, scale> {};

}  // namespace

TEST_CASE("neighbours are linked, with a gradient if one flows") {
  CHECK(links<chain>({}) == std::vector<stage_link>{});
  CHECK(links<chain>({1, 4}) == std::vector<stage_link>{{0, 1, false}, {1, 2, false}});
  CHECK(links<skipping>({2}) == std::vector<stage_link>{{0, 1, true}});
}

TEST_CASE("a skip is a link from its source to its destination") {
  CHECK(links<skipping>({3, 4, 5, 6, 7}) ==
        std::vector<stage_link>{
            {0, 1, true}, {0, 3, true}, {0, 5, true}, {1, 2, true}, {2, 3, true}, {3, 4, true}, {4, 5, true}});
  CHECK(links<skipping>({3, 5}) == std::vector<stage_link>{{0, 1, true}, {0, 2, true}, {1, 2, true}});
}

TEST_CASE("a link of integers has no gradient, a link of floats beside them has one") {
  CHECK(links<integers>({1}) == std::vector<stage_link>{{0, 1, true}});
  CHECK(links<integers>({1, 2}) == std::vector<stage_link>{{0, 1, true}, {0, 2, true}, {1, 2, false}});
  CHECK(links<integers>({2, 3}) == std::vector<stage_link>{{0, 1, false}, {0, 2, true}, {1, 2, false}});
}
