#include <gpipe/plan/stages/stage_view.hpp>

#include <doctest/doctest.h>

#include <string>

#include <gpipe/core/zeroed_array.hpp>
#include <gpipe/layer/activation/gelu.hpp>
#include <gpipe/layer/activation/relu.hpp>
#include <gpipe/model/model.hpp>

#include "support/layers.hpp"

using namespace gpipe;
using namespace laws;

namespace {

//   layer   0 halve  1 cross  2 join  3 relu  4 gelu  5 add  6 add  7 passing_loss
//   reads   0        1 2      3 4     5       6       7 5    8 5    9
//   writes  1 2      3 4      5       6       7       8      9      10
struct net
    : model<input<float, 8>, halve, cross, join, stash<"x">, relu, gelu, pop<"x">, add, pop<"x">, add, passing_loss> {};
constexpr const network& n = network_of<net>;
constexpr int x = 5, of_relu = 6, of_gelu = 7;  // values

constexpr int first[] = {0, 3, 5, 8};  // halve cross join | relu gelu | add add loss
constexpr cut three{first, 3};

constexpr stage_view s0(n, three, 0), s1(n, three, 1), s2(n, three, 2);
static_assert(s1.first() == 3 && s1.last() == 5 && s1.stage() == 1 && s1.holds(3) && !s1.holds(5) && !s1.holds(2));

// Readers of x: relu in stage 1, both additions in stage 2.
static_assert(s0.local_readers(x) == 0 && s1.local_readers(x) == 1 && s2.local_readers(x) == 2);
static_assert(s0.sent(x) && !s1.sent(x) && !s2.sent(x) && s1.sent(of_gelu) && !s1.sent(of_relu));
static_assert(!s0.boundary(x) && s1.boundary(x) && s2.boundary(x) && s0.boundary(0));
static_assert(s0.top_stage(x) == 2 && s1.top_stage(of_gelu) == 2);

// relu keeps its output, the loss its input, cross both of its inputs.
static_assert(s1.kept(of_relu) && !s1.kept(of_gelu) && !s0.kept(x) && !s1.kept(x));
static_assert(s0.kept(1) && s0.kept(2) && !s0.kept(3));

// Gradients of x: stage 2 returns one for both additions, relu returns another.
static_assert(s0.returns(x) == 2 && s1.returns(of_gelu) == 1);
static_assert(s2.return_of(x, 2) == 0 && s2.return_of(x, 1) == 0 && s1.return_of(x, 0) == 1);
// The last reader writes, the reader before adds to it; relu is the only reader of its stage.
static_assert(!s2.adds(x, 2) && s2.adds(x, 1) && !s1.adds(x, 0));
static_assert(s2.reader_index(x, 5, 1) == 1 && s2.reader_index(x, 6, 1) == 2 && s1.reader_index(x, 3, 0) == 0);
static_assert(s2.reads_first(x, 1) && !s2.reads_first(x, 2) && s1.reads_first(x, 0));

// In one stage the later readers write first. Two stages that are not the last to read a value send separately.
constexpr int all[] = {0, 8};
constexpr stage_view whole(n, {all, 1}, 0);
static_assert(!whole.sent(x) && !whole.adds(x, 2) && whole.adds(x, 1) && whole.adds(x, 0));
constexpr int split[] = {0, 2, 6, 8};  // halve cross | join relu gelu add | add loss
constexpr cut other{split, 3};
constexpr stage_view t1(n, other, 1);
static_assert(t1.sent(x) && t1.local_readers(x) == 2 && t1.returns(x) == 1);
static_assert(t1.adds(x, 1) && t1.adds(x, 0));  // added to the returned gradient
constexpr int separate[] = {0, 3, 6, 8};        // halve cross join | relu gelu add | add loss
constexpr stage_view u1(n, {separate, 3}, 1), u0(n, {separate, 3}, 0);
static_assert(u0.returns(x) == 3 && u1.return_of(x, 1) == 1 && u1.return_of(x, 0) == 2);
static_assert(!u1.adds(x, 1) && !u1.adds(x, 0));

/// A letter for each layer: r if a recompute runs it.
std::string reruns(const stage_view& s) {
  const detail::zeroed_array<bool> rerun(s.last() - s.first());
  s.mark_rerun(rerun.data());
  std::string letters;
  for (int l = s.first(); l < s.last(); ++l) letters += rerun[l - s.first()] ? 'r' : '.';
  return letters;
}

}  // namespace

TEST_CASE("a recompute runs only the layers whose output backward needs") {
  // cross keeps the output of halve; no layer of the stage keeps the output of cross or join.
  CHECK(reruns(s0) == "r..");
  // relu keeps its output, gelu has an extra, and gelu's forward reads the output of relu.
  CHECK(reruns(s1) == "rr");
  // The loss keeps the output of the second addition, which reads the output of the first.
  CHECK(reruns(s2) == "rr.");
}

TEST_CASE("a value that only a later stage reads is written there, unless a recompute would write it again") {
  CHECK(s0.direct(x));
  CHECK(!s1.direct(of_gelu));  // gelu has an extra
  CHECK(!s1.direct(of_relu));  // not sent
  CHECK(!t1.direct(x));        // this stage reads it, too
  constexpr int halves[] = {0, 1, 8};
  const stage_view alone(n, {halves, 2}, 0);
  CHECK(alone.direct(1));
  CHECK(alone.direct(2));
}

TEST_CASE("a stage that reads a computed value of an earlier stage sends gradients") {
  CHECK(!s0.sends_gradients());
  CHECK(s1.sends_gradients());
  CHECK(s2.sends_gradients());
  CHECK(!whole.sends_gradients());
  CHECK(s1.writes(of_relu));
  CHECK(!s1.writes(x));
}

TEST_CASE("stages match if they hold the same layers, connected equally inside and at the ends") {
  // Layers 1 to 15 are five blocks of relu, gelu and add.
  struct repeated
      : model<input<float, 8>, passing_loss, stash<"y">, repeat<5, residual<relu, gelu>>, passing_loss, pop<"y">, add> {
  };
  static constexpr const network& r = network_of<repeated>;
  static constexpr int blocks[] = {0, 1, 4, 7, 10, 13, 16, 18}, others[] = {0, 4, 6, 8, 11, 18};
  const auto at = [&](int s) { return stage_view(r, {blocks, 7}, s); };
  const auto cut_otherwise = [&](int s) { return stage_view(r, {others, 5}, s); };
  CHECK(at(2).matches(at(3)));
  CHECK(at(4).matches(at(2)));
  CHECK(!at(2).matches(at(1)));             // the end reads the input of this stage, too
  CHECK(!at(2).matches(at(5)));             // one layer reads the output of this stage, not two
  CHECK(!at(2).matches(cut_otherwise(1)));  // shorter
  CHECK(!at(2).matches(cut_otherwise(3)));  // from the middle of one block to the middle of the next
}
