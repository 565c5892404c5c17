// optimize: yes
// sanitizers: thread

#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <set>
#include <string>
#include <vector>

#include <gpipe/plan/options/layer_pattern.hpp>

#include "support/models.hpp"
#include "support/same_bits.hpp"
#include "support/sanitized.hpp"
#include "support/touched_memory.hpp"

using namespace laws;

namespace {

/// Every pattern that names layers which may run again: paths of layers and of the groups that they are in, and types.
std::vector<std::string> patterns_of(const network& net) {
  std::set<std::string> all;
  for (int l = 0; l < net.layer_count; ++l) {
    std::string path = gpipe::detail::path_of(net, l);
    for (std::size_t dot = path.size(); dot != path.npos && dot > 0; dot = path.rfind('.', dot - 1))
      all.insert(path.substr(0, dot));
    all.insert(std::string(net.type_of(l).name));
  }
  std::erase_if(all, [&](const std::string& pattern) {
    for (int l = 0; l < net.layer_count; ++l)
      if (gpipe::detail::matches_layer(net, pattern, l) && gpipe::detail::always_keeps(net, l)) return true;
    return false;
  });
  return {all.begin(), all.end()};
}

void holds_for_random_layers(const test_model& model, int count, int replicas = 1) {
  const std::vector<std::string> patterns = patterns_of(model.net);
  REQUIRE(patterns.size() > 3);
  same_bits law{.model = model, .sizes = {13, 4, replicas}, .replicas = replicas};
  std::mt19937 draw(7);
  for (int n = 0; n < count; ++n) {
    variation with{.plan = {.recompute = recompute_mode::never}};
    plan_options& o = with.plan;
    const int chosen = n == 0 ? 16 : 1 + static_cast<int>(draw() % 6);
    std::string text;
    for (int i = 0; i < chosen; ++i) {
      const std::string& pattern = patterns[draw() % patterns.size()];
      o.recompute_layers.add(pattern.c_str());
      text += pattern + " ";
    }
    o.stages = 1 + static_cast<int>(draw() % static_cast<unsigned>((std::min)(model.layers(), 5)));
    const schedule_kind kinds[] = {schedule_kind::fill_drain, schedule_kind::one_f_one_b, schedule_kind::zb_h1};
    o.schedule = kinds[draw() % 3];
    with.canary = draw() % 2 == 0;
    const bool touches = !sanitized && draw() % 2 == 0;
    o.group_gradients = o.schedule == schedule_kind::fill_drain ? static_cast<int>(draw() % 6) : 0;
    if (replicas > 1) o.shard = static_cast<gpipe::shard>(draw() % 3);
    CAPTURE(text);
    law.holds(with);
    if (with.canary || !touches || replicas > 1) continue;
    o.micro_batches = law.micro_batches, o.micro_batch_size = law.micro_batch_size;
    touches_as_predicted(measured(model), o);
  }
}

}  // namespace

TEST_CASE("recomputed layers: the same bits for random lists, stages and schedules") {
  for (const test_model* model :
       {&models::residual, &models::skip, &models::pair_double, &models::attended, &models::image})
    holds_for_random_layers(*model, 60);
  for (const test_model* model : {&models::losses_bf16, &models::sliced}) holds_for_random_layers(*model, 30);
}

TEST_CASE("recomputed layers in replicas, with all and with sharded state: the same bits") {
  holds_for_random_layers(models::residual, 30, 2);
  holds_for_random_layers(models::attended, 30, 3);
}
