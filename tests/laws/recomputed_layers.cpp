// optimize: yes
// sanitizers: thread

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <random>
#include <set>
#include <string>
#include <vector>

#include <gpipe/plan/options/layer_pattern.hpp>

#include "support/attended.hpp"
#include "support/imaged.hpp"
#include "support/sanitized.hpp"
#include "support/touched_memory.hpp"

using namespace laws;

namespace {

/// Every pattern that names layers which may run again: paths of layers and of the groups that they are in, and types.
template <class Net>
std::vector<std::string> patterns_of() {
  const network& net = network_of<Net>;
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

struct setting {
  int S = 1;
  layer_patterns layers{};
  schedule_choice schedule{};
  bool canary = true, touches = false;
  int group_gradients = 0, replicas = 1, M = 5;
  gpipe::shard shard = gpipe::shard::none;
};

template <class Net, class Optimizer, class Data>
std::vector<std::uint64_t> train(const setting& as, const Data& data) {
  training_options how;
  how.seed = 11;
  how.max_grad_norm = 0.1;
  how.canary = as.canary;
  how.arena_fill = std::byte{0xff};
  plan_options o{.stages = as.S, .micro_batches = as.M, .micro_batch_size = 4, .recompute = recompute_mode::never};
  o.recompute_layers = as.layers;
  o.schedule = as.schedule.kind;
  o.chunks = as.schedule.chunks;
  o.replicas = as.replicas;
  o.shard = as.shard;
  o.group_gradients = as.group_gradients;
  o.optimizer_moments = Optimizer::moments;
  if (!as.canary && as.touches) touches_as_predicted<Net, Optimizer>(o, data);
  trainer<Net, Optimizer> training(o, Optimizer{.learning_rate = 0.05}, how);
  std::vector<std::uint64_t> found;
  for (const int size : {13, 4, as.replicas}) {
    found.push_back(std::bit_cast<std::uint64_t>(training.step(data.take(0, size)).loss));
    found.push_back(gradients_of(training));
    found.push_back(state_of(training));
  }
  found.push_back(std::bit_cast<std::uint64_t>(training.evaluate(data.take(0, 9)).loss));
  found.push_back(training.parameter_hash());
  return found;
}

template <class Net, class Optimizer, class Data>
void holds_for_random_layers(const Data& data, int count, int replicas = 1) {
  const std::vector<std::string> patterns = patterns_of<Net>();
  REQUIRE(patterns.size() > 3);
  const auto expected = train<Net, Optimizer>({.replicas = replicas}, data);
  std::mt19937 draw(7);
  for (int n = 0; n < count; ++n) {
    setting as{.replicas = replicas};
    const int chosen = n == 0 ? 16 : 1 + static_cast<int>(draw() % 6);
    std::string text;
    for (int i = 0; i < chosen; ++i) {
      const std::string& pattern = patterns[draw() % patterns.size()];
      as.layers.add(pattern.c_str());
      text += pattern + " ";
    }
    constexpr int L = layers_of<Net>;
    as.S = 1 + static_cast<int>(draw() % static_cast<unsigned>((std::min)(L, 5)));
    const schedule_kind kinds[] = {schedule_kind::fill_drain, schedule_kind::one_f_one_b, schedule_kind::zb_h1};
    as.schedule = schedule_choice(kinds[draw() % 3], 2);
    as.canary = draw() % 2 == 0;
    as.touches = !sanitized && draw() % 2 == 0;
    as.group_gradients = as.schedule.kind == schedule_kind::fill_drain ? static_cast<int>(draw() % 6) : 0;
    if (replicas > 1) as.shard = static_cast<gpipe::shard>(draw() % 3), as.touches = false;
    CAPTURE(static_cast<int>(as.shard));
    CAPTURE(text);
    CAPTURE(as.S);
    CAPTURE(as.schedule.name());
    CAPTURE(as.group_gradients);
    CHECK(train<Net, Optimizer>(as, data) == expected);
  }
}

}  // namespace

TEST_CASE("recomputed layers: the same bits for random lists, stages and schedules") {
  const samples<float, std::int32_t> tokens(40, 3, 3);
  holds_for_random_layers<residual_net<float>, adam>(samples<float>(40, 12, 1), 60);
  holds_for_random_layers<skip_net<float>, adam>(samples<float>(40, 12, 2), 60);
  holds_for_random_layers<pair_net<double>, adam>(samples<double>(40, 12, 1), 60);
  holds_for_random_layers<attended_net<float>, adam>(token_samples<float>(40), 60);
  holds_for_random_layers<image_net<float>, adam>(samples<float>(40, 12, 1), 60);
  holds_for_random_layers<losses_net<bf16>, adam>(samples<float>(40, 12, 1), 30);
  holds_for_random_layers<sliced_net<float>, adam>(tokens, 30);
}

TEST_CASE("recomputed layers in replicas, with all and with sharded state: the same bits") {
  holds_for_random_layers<residual_net<float>, adam>(samples<float>(40, 12, 1), 30, 2);
  holds_for_random_layers<attended_net<float>, adam>(token_samples<float>(40), 30, 3);
}
