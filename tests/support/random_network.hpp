#pragma once

// Random networks made as data, and all cuts of a network.

#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include <gpipe/plan/memory/derive_requirements.hpp>
#include <gpipe/plan/options/options.hpp>
#include <gpipe/plan/plan_steps.hpp>

namespace nets {

using namespace gpipe;
using namespace gpipe::detail;

inline constexpr parameter random_weights[] = {{"w", {16}}, {"w", {64}}, {"w", {256}}, {"w", {1024}}};

/// Every layer of a chain reads the one before and, with skips, values from further off.
struct random_network {
  std::vector<layer_type> rows;
  std::vector<expanded_layer> layers;
  std::vector<value> values;
  std::vector<gpipe::detail::read> reads;
  std::vector<int> readers;
  network net;

  /// The first `fixed` values of layers have no gradient. Layer `beside` reads the model's input and not the layer
  /// before.
  random_network(std::mt19937& random, int count, bool skips, int fixed = 0, int beside = -1) {
    const auto below = [&random](int limit) { return static_cast<int>(random() % static_cast<unsigned>(limit)); };
    values.push_back({{16}, -1, false});
    for (int l = 0; l < count; ++l) {
      layer_type r;
      r.inputs = skips ? 1 + below(3) : 1;
      r.outputs = 1;
      if (const int which = below(8); which < 4) r.parameters = random_weights + which, r.parameter_count = 1;
      r.keeps = {.input = below(2) == 0, .output = below(3) == 0};
      layers.push_back({l, static_cast<int>(reads.size()), r.inputs, l + 1, 1});
      for (int i = 0; i < r.inputs; ++i) reads.push_back({i > 0 ? below(l + 1) : l == beside ? 0 : l, l});
      rows.push_back(r);
      values.push_back({{std::size_t{16} << below(8)}, l, l >= fixed});
    }
    std::vector<std::vector<int>> readers_of(values.size());
    for (std::size_t r = 0; r < reads.size(); ++r)
      readers_of[static_cast<std::size_t>(reads[r].value)].push_back(static_cast<int>(r));
    for (std::size_t v = 0; v < values.size(); ++v) {
      values[v].first_reader = static_cast<int>(readers.size());
      values[v].readers = static_cast<int>(readers_of[v].size());
      readers.insert(readers.end(), readers_of[v].begin(), readers_of[v].end());
    }
    net = {rows.data(),
           layers.data(),
           values.data(),
           reads.data(),
           readers.data(),
           nullptr,
           count,
           count,
           count + 1,
           static_cast<int>(reads.size()),
           0,
           1,
           dtype::float32};
  }
};

/// Memory limits of a plan's stages: one for all, or one for each on its own device. Some devices have none.
class stage_limits {
 public:
  stage_limits(std::mt19937& random, int stages, bool each) {
    const auto below = [&random](int limit) { return static_cast<int>(random() % static_cast<unsigned>(limit)); };
    for (int s = 0; each && s < stages; ++s) more_.push_back(s > 0 && below(5) == 0 ? no_memory_limit : below(6000));
    if (each) more_[static_cast<std::size_t>(below(stages))] = 0;
    devices_.resize(more_.size(), this_cpu);
  }
  bool each() const { return !more_.empty(); }
  /// The least limit with which a stage of these bytes fits.
  std::int64_t least(int stage, std::int64_t bytes) const {
    return each() ? bytes - more_[static_cast<std::size_t>(stage)] : bytes;
  }
  void set(plan_options& o, std::int64_t limit) {
    if (!each() || limit == no_memory_limit) {
      o.memory_limit = limit;
      o.devices = nullptr;
      o.device_count = 0;
      return;
    }
    o.devices = devices_.data();
    o.device_count = o.stages;
    for (int s = 0; s < o.stages; ++s) {
      const std::int64_t more = more_[static_cast<std::size_t>(s)];
      devices_[static_cast<std::size_t>(s)].memory_limit =
          more == no_memory_limit ? more : (limit + more) * o.stages_beside(s);
    }
    o.memory_limit = no_memory_limit;
  }

 private:
  std::vector<std::int64_t> more_;
  std::vector<device_spec> devices_;
};

/// Calls `use(first)` for every cut of L layers into S stages.
template <class Use>
void each_cut(int L, int S, const Use& use) {
  std::vector<int> first;
  for (int s = 0; s < S; ++s) first.push_back(s);
  for (first.push_back(L);;) {
    use(first);
    int s = S - 1;
    while (s > 0 && first[static_cast<std::size_t>(s)] == L - (S - s)) --s;
    if (s == 0) return;
    for (int at = ++first[static_cast<std::size_t>(s)]; s < S; ++s) first[static_cast<std::size_t>(s)] = at++;
  }
}

inline constexpr std::int64_t no_step = (std::numeric_limits<std::int64_t>::max)();

/// The simulated step of a cut, by the steps of a plan; `no_step` if a stage breaks the limit.
inline std::int64_t step_of(const network& net, const plan_options& o, const stage_costs& costs,
                            const std::vector<int>& first) {
  const std::int64_t step = gpipe::detail::step_of_cut(net, o, costs, first.data());
  return step < 0 ? no_step : step;
}

/// The shortest of all cuts; `no_step` if none obeys the limit.
inline std::int64_t shortest_step(const network& net, const plan_options& o, const stage_costs& costs) {
  std::int64_t shortest = no_step;
  each_cut(net.layer_count, o.stages, [&](const std::vector<int>& first) {
    if (const std::int64_t step = step_of(net, o, costs, first); step < shortest) shortest = step;
  });
  return shortest;
}

}  // namespace nets
