#pragma once

// Every cut of a small model, with every choice of what its stages recompute.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include <gpipe/plan/cut/choose_cut.hpp>
#include <gpipe/plan/recompute/recompute_search.hpp>
#include <gpipe/plan/recompute/recomputed_layers.hpp>

#include "support/random_network.hpp"

namespace nets {

struct choice {
  std::int64_t time, bytes;
};

/// Every choice of layers of a stage, and every number of working sets.
inline std::vector<choice> all_choices(const network& net, const plan_options& o, const stage_costs& costs,
                                       const std::vector<int>& first, int stage, const memory_requirements& fewest) {
  std::vector<choice> all;
  const int begin = first[static_cast<std::size_t>(stage)], count = first[static_cast<std::size_t>(stage) + 1] - begin;
  const cut plain{first.data(), o.stages};
  const schedule_choice schedule = o.chosen_schedule();
  memory_requirements needs = fewest;
  std::int64_t forward = 0;
  for (int l = begin; l < begin + count; ++l) forward += costs.of(stage)[l].forward;
  std::vector<int> sets(static_cast<std::size_t>(o.stages));
  std::vector<char> flags(static_cast<std::size_t>(o.micro_batches));
  for (; needs.kept_copies <= (std::max)(fewest.in_flight, fewest.kept_copies); ++needs.kept_copies) {
    sets[static_cast<std::size_t>(stage)] = needs.kept_copies;
    const int again = flag_recomputed(schedule, o.stages, o.micro_batches, {recompute_mode::as_needed, sets.data()},
                                      stage, reinterpret_cast<bool*>(flags.data()));
    all.push_back({forward * again, memory_of(stage_view(net, plain, stage), needs).total()});
  }
  needs.kept_copies = (std::max)(fewest.in_flight, fewest.kept_copies);
  std::vector<int> before(static_cast<std::size_t>(net.layer_count), -1);
  for (unsigned mask = 1; mask < 1u << count; ++mask) {
    std::vector<char> marked(static_cast<std::size_t>(net.layer_count));
    bool may = true;
    for (int i = 0; i < count; ++i) {
      marked[static_cast<std::size_t>(begin + i)] = mask >> i & 1u;
      may = may && !((mask >> i & 1u) != 0 && always_keeps(net, begin + i));
    }
    if (!may) continue;
    place_recomputes(net, begin, begin + count, reinterpret_cast<const bool*>(marked.data()), before.data());
    std::int64_t time = 0;
    for (int l = begin; l < begin + count; ++l)
      if (before[static_cast<std::size_t>(l)] >= 0) time += costs.of(stage)[l].forward;
    const stage_view view(net, {first.data(), o.stages, before.data()}, stage);
    all.push_back({time * o.micro_batches, memory_of(view, needs).total()});
  }
  return all;
}

/// A random model with a memory limit, and the time of its slowest stage: of a cut as the library decides its
/// recomputes, and of the best of all cuts with all choices.
struct cuts_and_layers {
  int layers;
  random_network drawn;
  plan_options o;
  std::vector<layer_cost> costs;
  std::vector<memory_requirements> needs;

  explicit cuts_and_layers(std::mt19937& random)
      : layers(3 + below(random, 4)),
        drawn(random, layers, below(random, 3) > 0),
        o{.stages = 1 + below(random, (std::min)(layers, 3)),
          .micro_batches = 1 + below(random, 5),
          .micro_batch_size = 1,
          .schedule = schedule_kind::one_f_one_b} {
    for (int l = 0; l < layers; ++l) costs.push_back({below(random, 9), below(random, 9), below(random, 9)});
    for (int s = 0; s < o.stages; ++s) needs.push_back(requirements_of(o.chosen_schedule(), o, s));
    std::vector<std::int64_t> bytes;
    each_cut(layers, o.stages, [&](const std::vector<int>& first) {
      std::vector<std::vector<choice>>& of_cut = all_.emplace_back();
      for (int s = 0; s < o.stages; ++s) {
        of_cut.push_back(all_choices(drawn.net, o, each(), first, s, needs[static_cast<std::size_t>(s)]));
        for (const choice& c : of_cut.back()) bytes.push_back(c.bytes);
      }
      cuts_.push_back(first);
    });
    o.memory_limit = bytes[random() % bytes.size()] - below(random, 2);
  }

  stage_costs each() const { return {costs.data(), layers, false}; }
  /// `no_memory_limit` if no choice of any cut fits.
  std::int64_t best_bottleneck() const {
    std::int64_t best = no_memory_limit;
    for (std::size_t c = 0; c < cuts_.size(); ++c) {
      std::int64_t bottleneck = 0;
      for (std::size_t s = 0; s < all_[c].size(); ++s) {
        std::int64_t least = no_memory_limit;
        for (const choice& it : all_[c][s])
          if (it.bytes <= o.memory_limit) least = (std::min)(least, it.time);
        if (least == no_memory_limit) bottleneck = no_memory_limit;
        else if (bottleneck != no_memory_limit) bottleneck = (std::max)(bottleneck, time_of(cuts_[c], s, least));
      }
      best = (std::min)(best, bottleneck);
    }
    return best;
  }
  std::int64_t bottleneck_of(const std::vector<int>& first) const {
    const stage_costs of = each();
    recompute_search search(drawn.net, o, of, needs.data());
    std::int64_t bottleneck = 0;
    for (int s = 0; s < o.stages; ++s)
      bottleneck = (std::max)(
          bottleneck, time_of(first, static_cast<std::size_t>(s), search.decide(first.data(), s, o.memory_limit).time));
    return bottleneck;
  }

 private:
  static int below(std::mt19937& random, int limit) {
    return static_cast<int>(random() % static_cast<unsigned>(limit));
  }
  /// The time of a micro-batch in a stage whose recomputes take `again` in a step.
  std::int64_t time_of(const std::vector<int>& first, std::size_t stage, std::int64_t again) const {
    std::int64_t sum = (again + o.micro_batches - 1) / o.micro_batches;
    for (int l = first[stage]; l < first[stage + 1]; ++l) {
      const layer_cost& c = costs[static_cast<std::size_t>(l)];
      sum += c.forward + c.backward_input + c.backward_parameters;
    }
    return sum;
  }

  std::vector<std::vector<int>> cuts_;
  std::vector<std::vector<std::vector<choice>>> all_;  // of each cut, of each stage
};

}  // namespace nets
