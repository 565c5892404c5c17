#include <gpipe/plan/recompute/decide_stages.hpp>

#include <doctest/doctest.h>

#include <vector>

#include <gpipe/layer/activation/relu.hpp>
#include <gpipe/layer/linear/linear.hpp>
#include <gpipe/layer/normalization/layer_norm.hpp>
#include <gpipe/model/model.hpp>
#include <gpipe/plan/memory/stage_requirements.hpp>
#include <gpipe/plan/options/options.hpp>
#include <gpipe/plan/stage_costs.hpp>

using namespace gpipe;
using namespace gpipe::detail;

namespace {

struct net : model<input<float, 64>, repeat<4, layer_norm, linear<64>, relu>> {};
constexpr const network& it = network_of<net>;
constexpr int first[] = {0, 4, 8, 12};

struct decided {
  stage_plan plans[3]{};
  int before[12]{};
};

constexpr decided decide(const plan_options& o) {
  decided found;
  const zeroed_array<layer_cost> costs(12);
  decide_stages(it, o, o.chosen_schedule(), fill_costs(it, o, costs.data()), first, found.plans, found.before);
  return found;
}
constexpr plan_options with(recompute_mode mode, std::int64_t limit = no_memory_limit) {
  return {.stages = 3, .micro_batches = 8, .micro_batch_size = 16, .recompute = mode, .memory_limit = limit};
}
std::int64_t bytes(const decided& of, int stage) {
  return memory_of(stage_view(it, {first, 3, of.before}, stage), of.plans[stage].requirements).total();
}

}  // namespace

TEST_CASE("as needed without a limit nothing runs again") {
  constexpr decided found = decide(with(recompute_mode::as_needed));
  static_assert(found.plans[1].first == 4 && found.plans[1].last == 8);
  static_assert(found.plans[1].requirements.kept_copies == 8);
  static_assert(!recomputes_layers(found.before, 12));
}

TEST_CASE("as needed a stage recomputes layers of every micro-batch, or whole micro-batches, to fit its limit") {
  const decided free = decide(with(recompute_mode::never));
  const std::int64_t all = bytes(free, 1);
  int by_layer = 0;
  for (int percent = 200; percent >= 166; --percent) {  // half percents; below, the parameters alone are too large
    CAPTURE(percent);
    const std::int64_t limit = all * percent / 200;
    const decided found = decide(with(recompute_mode::as_needed, limit));
    const int kept = found.plans[1].requirements.kept_copies;
    bool again = false;
    for (int l = 4; l < 8; ++l) again = again || found.before[l] >= 0;
    if (percent == 200) CHECK((!again && kept == 8));
    CHECK((!again || kept == 8));
    by_layer += again;
    CHECK(bytes(found, 1) <= limit);
  }
  CHECK(by_layer > 10);
}

TEST_CASE("listed layers run again where something reads them in backward, whatever the limit") {
  plan_options o = with(recompute_mode::as_needed);
  o.recompute_layers = {"relu"};
  const decided found = decide(o);
  for (int l = 0; l < 12; ++l) {
    CAPTURE(l);
    CHECK((found.before[l] >= 0) == (l % 3 == 2));
  }
}
