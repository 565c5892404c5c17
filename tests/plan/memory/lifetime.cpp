#include <gpipe/plan/memory/lifetime.hpp>

#include <doctest/doctest.h>

#include <string>

#include <gpipe/layer/activation/relu.hpp>
#include <gpipe/layer/linear/linear.hpp>
#include <gpipe/layer/loss/softmax_cross_entropy.hpp>
#include <gpipe/model/model.hpp>

#include "support/layers.hpp"

using namespace gpipe;
using namespace gpipe::detail;
using namespace laws;

namespace {

//   layer   0 halve  1 cross  2 join  3 relu  4 add  5 softmax_cross_entropy
//   reads   0        1 2      3 4     5       6 5    7
//   writes  1 2      3 4      5       6       7
struct net : model<input<float, 64>, halve, cross, join, stash<"x">, relu, pop<"x">, add, softmax_cross_entropy> {};
constexpr const network& n = network_of<net>;
constexpr int all[] = {0, 6}, first[] = {0, 3, 6};
constexpr stage_view whole(n, {all, 1}, 0), s0(n, {first, 2}, 0), s1(n, {first, 2}, 1);

template <class Walk>
std::string values(const stage_view& s, Walk walk) {
  std::string text;
  for (int l = s.first(); l < s.last(); ++l) {
    walk(l, [&](int v) { text += std::to_string(v) + " "; });
    text += "| ";
  }
  return text;
}

}  // namespace

TEST_CASE("a kept value lives until its last reader in backward") {
  const lifetimes fused(whole, false);
  CHECK(fused.holder(1) == 1);  // cross keeps its inputs
  CHECK(fused.holder(3) == -1);
  CHECK(fused.holder(6) == 3);  // relu its output
  CHECK(fused.holder(7) == 5);
  CHECK(values(whole, [&](int l, auto f) { fused.held(l, f); }) == "| 1 2 | | 6 | | 7 | ");
}

TEST_CASE("a value that only the next stage's first layer keeps has no holder") {
  constexpr int behind_halve[] = {0, 1, 6};
  const stage_view stage(n, {behind_halve, 2}, 0);
  CHECK(lifetimes(stage, false).holder(1) == -1);
}

TEST_CASE("an activation lives until its last reader, and a sent one until it is copied") {
  const lifetimes of(whole, false);
  CHECK(values(whole, [&](int l, auto f) { of.activated(l, f); }) == "| 3 4 | 5 | | | | ");
  CHECK(values(whole, [&](int l, auto f) { of.dies_after_forward(l, f); }) == "| | 3 4 | | 5 | | ");
  const lifetimes sent(s0, false);
  CHECK(values(s0, [&](int l, auto f) { sent.activated(l, f); }) == "| 3 4 | | ");  // join writes into stage 1
  CHECK(values(s0, [&](int l, auto f) { sent.dies_after_forward(l, f); }) == "| | 3 4 | ");
}

TEST_CASE("a gradient lives from its value's last reader to its writer") {
  const lifetimes of(whole, false);
  CHECK(values(whole, [&](int l, auto f) { of.differentiated(l, f); }) == "| | 3 4 | | 6 5 | 7 | ");
  CHECK(values(whole, [&](int l, auto f) { of.consumed(l, f); }) == "| 3 4 | 5 | 6 | 7 | | ");
  CHECK(of.added_bytes(3, 2) == 512);  // to what add has left
  CHECK(of.added_bytes(4, 2) == 0);
  const lifetimes later(s1, true);
  CHECK(values(s1, [&](int l, auto f) { later.differentiated(l, f); }) == "| 6 | 7 | ");  // of 5 it is another stage's
  CHECK(later.added_bytes(3, 2) == 512);
}

TEST_CASE("a workspace is used late where only the parameter part runs, and comes last") {
  struct two : model<input<float, 8>, linear<8>, linear<8>, relu, softmax_cross_entropy> {};
  constexpr int whole_of_two[] = {0, 4};
  const stage_view stage(network_of<two>, {whole_of_two, 1}, 0);
  const lifetimes split(stage, true), fused(stage, false);
  for (int l = 0; l < 4; ++l) {
    CHECK(split.works_late(l) == (l == 0));  // the model's input has no gradient
    CHECK(!fused.works_late(l));
  }
}

TEST_CASE("parameter parts that come last keep their operands alive") {
  const lifetimes split(whole, true);
  for (int l = 0; l < 6; ++l) CHECK(split.waits(l) == (l == 1));
  CHECK(split.holder(1) == 1);
  CHECK(!lifetimes(whole, false).waits(1));
}
