// sanitizers: address

#include <gpipe/runtime/binding/binder.hpp>

#include <doctest/doctest.h>

#include <memory>

#include <gpipe/layer/activation/relu.hpp>
#include <gpipe/make_plan.hpp>
#include <gpipe/plan/memory/layout.hpp>

#include "support/layers.hpp"

using namespace gpipe;
using namespace gpipe::detail;
using namespace laws;

namespace {

struct nowhere {};  // a context of a device that runs nothing

//   layer   0 halve  1 cross  2 join  3 relu  4 add  5 relu  6 add  7 passing_loss  8 halve
//   reads   0        1 2      3 4     5       6 5    7       8 5    9               10
//   writes  1 2      3 4      5       6       7      8       9      10              11 12
struct net : model<input<float, 32>, halve, cross, join, stash<"x">, relu, pop<"x">, add, relu, pop<"x">, add,
                   passing_loss, halve> {};
constexpr const network& n = network_of<net>;
constexpr int x = 5;

/// The addresses of every stage of a cut, over arenas that hold nothing.
struct bound_net {
  step_plan plan;
  std::vector<std::vector<std::byte>> arenas;
  std::vector<std::unique_ptr<detail::arena_map>> owned;
  std::vector<const detail::arena_map*> maps;
  std::vector<detail::binding> stages;

  explicit bound_net(const std::vector<int>& cut)
      : plan(make_plan(n, {.stages = static_cast<int>(cut.size()) + 1, .micro_batches = 3, .micro_batch_size = 2},
                       cut)) {
    static const kernel_row kernels[32]{};
    for (int s = 0; s < plan.stages(); ++s) {
      arenas.emplace_back(static_cast<std::size_t>(plan.memory(s).total()));
      owned.push_back(std::make_unique<detail::arena_map>(arenas.back().data()));
      lay_out(stage_view(n, plan.cut(), s), plan.requirements(s), [&](const memory_block& b) { owned.back()->add(b); });
      maps.push_back(owned.back().get());
    }
    for (int s = 0; s < plan.stages(); ++s) stages.push_back(detail::binder(n, plan, maps, s).bind(kernels));
  }
  const detail::bound_layer& layer(int l) const {
    const int s = plan.cut().stage_of(l);
    return stages[static_cast<std::size_t>(s)].layers[static_cast<std::size_t>(l - plan.cut().first[s])];
  }
};

}  // namespace

TEST_CASE("within a stage a layer reads the buffer that the layer before it writes") {
  const bound_net b({});
  for (int m = 0; m < 3; ++m) {
    for (int l = 1; l < 9; ++l)
      for (int i = 0; i < n.layers[l].reads; ++i)
        for (int before = 0; before < l; ++before)
          for (int o = 0; o < n.layers[before].writes; ++o)
            if (n.writes_value(before, o) == n.reads_value(l, i))
              CHECK(b.layer(l).in[i].at(m, false) == b.layer(before).out[o].at(m, false));
    CHECK(b.layer(2).in_gradient[0].at(m, false) == b.layer(1).out_gradient[0].at(m, false));
  }
  // Each micro-batch in flight has its own buffer for the input; values that only forward reads share one.
  CHECK(b.layer(0).in[0].at(0, false) != b.layer(0).in[0].at(1, false));
  CHECK(b.layer(2).out[0].at(0, false) == b.layer(2).out[0].at(1, false));
  CHECK(b.layer(0).in_gradient[0].at(0, false) == nullptr);  // no layer needs it
  CHECK(!b.layer(0).wants_input);
  CHECK(b.layer(1).owned.parameters != nullptr);
  CHECK(b.layer(1).parameter_at.front() == b.layer(1).owned.parameters);
  CHECK(b.stages[0].copies.empty());
  CHECK(b.stages[0].folds.empty());
}

TEST_CASE("the last reader of a value writes its gradient, and the others add to it") {
  const bound_net b({});
  CHECK(b.layer(6).sum[1].base == nullptr);
  CHECK(b.layer(6).in_gradient[1].at(0, false) == b.layer(2).out_gradient[0].at(0, false));
  for (const int l : {3, 4}) {
    const int i = l == 3 ? 0 : 1;
    CHECK(b.layer(l).sum[i].at(0, false) == b.layer(2).out_gradient[0].at(0, false));
    CHECK(b.layer(l).in_gradient[i].at(0, false) != b.layer(l).sum[i].at(0, false));
  }
}

TEST_CASE("an output without readers has a gradient of zeros") {
  const bound_net b({});
  for (int l = 0; l < 9; ++l)
    for (int o = 0; o < n.layers[l].writes; ++o) CHECK(b.layer(l).unread[o] == (l == 8));
}

TEST_CASE("a value for later stages is written into the stash of the first, and copied to the others") {
  const bound_net b({3, 5});  // halve cross join | relu add | relu add loss halve
  for (int m = 0; m < 3; ++m) {
    CHECK(b.layer(2).out[0].at(m, false) == b.layer(3).in[0].at(m, false));  // in stage 1
    CHECK(b.layer(4).in[1].at(m, false) == b.layer(3).in[0].at(m, false));
  }
  REQUIRE(b.stages[0].copies.size() == 1);
  CHECK(b.stages[0].copies[0].value == x);
  CHECK(b.stages[0].copies[0].source.at(1, false) == b.layer(3).in[0].at(1, false));
  CHECK(b.stages[0].copies[0].target.at(1, false) == b.layer(6).in[1].at(1, false));
  CHECK(b.stages[1].copies.empty());

  // Gradients: the last stage's is in place; the others are separate, and added in the writer's stage, later readers
  // first.
  const auto home = b.layer(2).out_gradient[0];
  // It comes from the stage after the next one, so three micro-batches are in flight.
  CHECK(home.at(0, false) != home.at(1, false));
  CHECK(home.at(1, false) != home.at(2, false));
  CHECK(home.at(0, false) != home.at(2, false));
  CHECK(b.layer(6).in_gradient[1].at(0, false) == home.at(0, false));
  REQUIRE(b.stages[0].folds.size() == 2);
  CHECK(b.stages[0].folds[0].source.at(0, false) == b.layer(4).in_gradient[1].at(0, false));
  CHECK(b.stages[0].folds[1].source.at(0, false) == b.layer(3).in_gradient[0].at(0, false));
  for (const auto& fold : b.stages[0].folds) CHECK(fold.target.at(0, false) == home.at(0, false));
  CHECK(b.layer(4).sum[1].base == nullptr);
  CHECK(b.layer(3).sum[0].base == nullptr);
}

TEST_CASE("a value that is kept and sent is copied from the kept buffer") {
  const bound_net b({1});  // halve | cross: cross keeps its input, in its own stage
  CHECK(b.stages[0].copies.empty());
  CHECK(b.layer(0).out[1].at(2, false) == b.layer(1).in[1].at(2, false));
  const bound_net c({6});  // ... add relu | add: relu keeps its output, and add reads it
  REQUIRE(c.stages[0].copies.size() == 2);
  CHECK(c.stages[0].copies[1].source.at(1, false) == c.layer(5).out[0].at(1, false));
  CHECK(c.stages[0].copies[1].target.at(1, false) == c.layer(6).in[0].at(1, false));
  CHECK(c.layer(5).out[0].at(1, false) != c.layer(6).in[0].at(1, false));
}
