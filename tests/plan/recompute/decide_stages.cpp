#include <gpipe/plan/recompute/decide_stages.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <vector>

#include <gpipe/layer/activation/relu.hpp>
#include <gpipe/layer/linear/linear.hpp>
#include <gpipe/layer/normalization/layer_norm.hpp>
#include <gpipe/model/model.hpp>
#include <gpipe/plan/cut/stage_costs.hpp>
#include <gpipe/plan/memory/derive_requirements.hpp>
#include <gpipe/plan/memory/packing.hpp>
#include <gpipe/plan/options/options.hpp>

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
  for (const int before : found.before) CHECK(before < 0);
}

TEST_CASE("as needed a stage recomputes layers of every micro-batch, or whole micro-batches, to fit its limit") {
  const decided free = decide(with(recompute_mode::never));
  const std::int64_t all = bytes(free, 1);
  int by_layer = 0;
  for (int percent = 200; percent >= 180; --percent) {  // half percents; below, both copies are too large
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

namespace {

/// Two stages, each with two linear layers.
constexpr int halves[] = {0, 6, 12};
struct choice {
  packed_weights packed;
  bool again;  ///< some layers or micro-batches run again
  std::int64_t bytes;
};
choice choose(const plan_options& o, int stage) {
  decided found;
  const zeroed_array<layer_cost> costs(12);
  decide_stages(it, o, o.chosen_schedule(), fill_costs(it, o, costs.data()), halves, found.plans, found.before);
  const memory_requirements& needs = found.plans[stage].requirements;
  bool again = needs.kept_copies < needs.in_flight;
  for (int l = halves[stage]; l < halves[stage + 1]; ++l) again = again || found.before[l] >= 0;
  return {needs.packed, again, memory_of(stage_view(it, {halves, 2, found.before}, stage), needs).total()};
}
constexpr std::int64_t copy = 64 * 64 * 4;  // one of the two packed copies of a layer

}  // namespace

TEST_CASE("a stage packs on the way before it recomputes, unless packing takes longer than forward") {
  using enum packed_weights;
  for (const schedule_kind schedule : {schedule_kind::fill_drain, schedule_kind::one_f_one_b})
    for (const int rows : {recompute_search::rows_worth_packing, 8}) {
      CAPTURE(name_of(schedule));
      CAPTURE(rows);
      plan_options o{.stages = 2,
                     .micro_batches = 8,
                     .micro_batch_size = rows,
                     .recompute = recompute_mode::as_needed,
                     .schedule = schedule};
      const bool drains = schedule == schedule_kind::fill_drain;
      const choice free = choose(o, 1);
      CHECK(free.packed == (drains ? in_turn : kept));
      CHECK(!free.again);
      const auto within = [&](std::int64_t limit) {
        plan_options limited = o;
        limited.memory_limit = limit;
        const choice made = choose(limited, 1);
        CHECK(made.bytes <= limit);
        return made;
      };
      CHECK(within(free.bytes).packed == free.packed);
      const std::int64_t least = free.bytes - (drains ? 1 : 3) * copy;  // on the way, and nothing runs again
      if (rows == recompute_search::rows_worth_packing) {
        for (const std::int64_t limit : {free.bytes - 1, least}) {
          CHECK(within(limit).packed == on_the_way);
          CHECK(!within(limit).again);
        }
        CHECK(within(least - 1).again);
      } else {
        CHECK(within(free.bytes - 1).packed == kept);
        CHECK(within(free.bytes - 1).again);
      }
      // With another mode nothing else can change.
      o.recompute = recompute_mode::never;
      CHECK(within(least).packed == on_the_way);
      CHECK(within(least + copy).packed == (drains ? in_turn : on_the_way));
      // On a GPU no layer packs on the way by default.
      o.recompute = recompute_mode::as_needed;
      o.device = h100;
      CHECK(within(free.bytes - 1).packed == kept);
      CHECK(within(free.bytes - 1).again);
    }
}

TEST_CASE("a stage with listed layers packs in turn if none of those that run again packs") {
  using enum packed_weights;
  plan_options o{.stages = 2, .micro_batches = 8, .micro_batch_size = 8, .recompute_layers = {"relu", "layer_norm"}};
  const auto packed = [&](int stage) { return choose(o, stage).packed; };
  CHECK(choose(o, 0).again);
  CHECK(packed(0) == in_turn);
  o.recompute_layers = {"relu", "0.1.1"};  // a linear layer of the first stage
  CHECK(choose(o, 0).again);
  CHECK(packed(0) == kept);
  CHECK(packed(1) == in_turn);
  o.recompute_layers = {"linear"};  // nothing reads what it writes
  CHECK(!choose(o, 0).again);
  CHECK(packed(0) == in_turn);
  o.recompute_layers = {"relu"};
  o.keep_packed_weights = true;
  CHECK(packed(0) == kept);
  const std::int64_t both = choose(o, 0).bytes;
  o.keep_packed_weights = false;
  CHECK(choose(o, 0).bytes == both - 2 * copy);
  o.share_packed_weights = true;
  CHECK(packed(0) == on_the_way);
  o.share_packed_weights = false;
  o.schedule = schedule_kind::one_f_one_b;
  CHECK(packed(1) == kept);
  o.micro_batches = 1;
  o.recompute_layers = {"relu", "linear"};
  CHECK(packed(0) == in_turn);
}

TEST_CASE("no choice of packed weights has fewer bytes than the bound that a search for a cut has") {
  for (const device_spec& device : {this_cpu, h100})
    for (const layer_patterns& list : {layer_patterns{}, {"relu"}, {"relu", "linear"}})
      for (const schedule_kind schedule : {schedule_kind::fill_drain, schedule_kind::one_f_one_b}) {
        CAPTURE(device.name);
        CAPTURE(list.count);
        CAPTURE(name_of(schedule));
        plan_options o{.stages = 2, .micro_batches = 8, .recompute_layers = list, .schedule = schedule};
        o.device = device;
        for (const std::int64_t limit : {no_memory_limit, std::int64_t{1}})
          for (int s = 0; s < 2; ++s) {
            o.memory_limit = limit;
            const choice made = choose(o, s);
            memory_requirements least = requirements_of(o.chosen_schedule(), o, s), needs = least;
            least.packed = fewest_packed(o, needs, s);
            needs.packed = made.packed;
            const stage_view stage(it, {halves, 2}, s);
            CHECK(memory_of(stage, least).total() <= memory_of(stage, needs).total());
          }
      }
}
