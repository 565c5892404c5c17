#pragma once

// Packs a network into the memory of devices, stage by stage.

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include <gpipe/make_plan.hpp>
#include <gpipe/plan.hpp>
#include <gpipe/plan/cut/stage_costs.hpp>
#include <gpipe/plan/recompute/recompute_search.hpp>

namespace example {

using namespace gpipe;

/// Bytes that depend on the batch: all but parameters, what the optimizer keeps of them, and their packed copies.
constexpr std::int64_t activations(const stage_memory& m) {
  return m.total() - m.of(memory_kind::parameters) - m.of(memory_kind::gradients) - m.of(memory_kind::moments) -
         m.of(memory_kind::derived);
}

/// The part of its work that a stage runs forward again.
enum class recomputed { nothing, micro_batches, layers };

struct packed_stage {
  int first = 0, last = 0, device = 0;  ///< the layers [first, last)
  recomputed again = recomputed::nothing;
  stage_memory memory;
};

struct packed_model {
  std::vector<packed_stage> stages;

  std::vector<std::int64_t> bytes_of_devices() const {
    std::vector<std::int64_t> of(stages.size());
    for (const packed_stage& s : stages) of[static_cast<std::size_t>(s.device)] += s.memory.total();
    return of;
  }
  std::int64_t largest_device() const {
    const auto of = bytes_of_devices();
    return *std::max_element(of.begin(), of.end());
  }
  std::int64_t activation_bytes() const {
    std::int64_t sum = 0;
    for (const packed_stage& s : stages) sum += activations(s.memory);
    return sum;
  }
  /// Bytes that do not depend on the batch.
  std::int64_t parameter_bytes() const {
    std::int64_t sum = 0;
    for (const packed_stage& s : stages) sum += s.memory.total() - activations(s.memory);
    return sum;
  }
  int stages_with(recomputed what) const {
    int count = 0;
    for (const packed_stage& s : stages) count += s.again == what;
    return count;
  }
};

/// Cuts a network into stages that obey their limits, from the last stage to the first, each as long as it can be. The
/// gradients that return to a stage depend on the stages after it, which are known by then.
///
/// `recompute_search` counts the bytes of a stage, and decides what it recomputes and how it packs its weights. The
/// same class makes the library's plans, so one with this cut obeys the same limits.
class packing {
 public:
  packing(const network& net, const plan_options& o)
      : net_(net),
        o_(o),
        cost_list_(static_cast<std::size_t>(gpipe::detail::cost_count(net, o))),
        costs_(gpipe::detail::fill_costs(net, o, cost_list_.data())),
        needs_(requirements_of_stages(o)),
        search_(net, o, costs_, needs_.data()) {}

  /// The first layers of all stages but the first; none: no first stage fits with the layers that are left.
  std::optional<std::vector<int>> boundaries(const std::vector<std::int64_t>& limits) {
    first_.assign(static_cast<std::size_t>(o_.stages) + 1, 0);  // one stage for all layers that are not cut yet
    first_.back() = net_.layer_count;
    length_ = net_.layer_count / o_.stages + 1;
    for (int s = o_.stages - 1; s >= 0; --s) {
      const auto i = static_cast<std::size_t>(s);
      const int begin = s == 0 ? 0 : furthest(s, limits[i]);
      if (begin < 0 || bytes(s, begin) > limits[i]) return {};
      length_ = first_[i + 1] - begin;
      first_[i] = begin;
    }
    return std::vector<int>(first_.begin() + 1, first_.end() - 1);
  }

  /// Bytes that suffice for each stage of a cut.
  std::vector<std::int64_t> bytes_of(const std::vector<int>& boundaries) {
    set_cut(boundaries);
    std::vector<std::int64_t> bytes;
    for (int s = 0; s < o_.stages; ++s) bytes.push_back(search_.sufficient_bytes(first_.data(), s));
    return bytes;
  }

  /// The stages of a cut, each with what it recomputes to obey its limit.
  packed_model model_of(const std::vector<int>& boundaries, const std::vector<std::int64_t>& limits) {
    set_cut(boundaries);
    packed_model model;
    const recompute_mode mode = o_.recompute_whole();
    const bool all_again = mode == recompute_mode::always || mode == recompute_mode::except_last;
    for (int s = 0; s < o_.stages; ++s) {
      const auto i = static_cast<std::size_t>(s);
      const auto decided = search_.decide(first_.data(), s, limits[i]);
      memory_requirements needs = needs_[i];
      needs.kept_copies = decided.working_sets;
      needs.packed = decided.packed;
      const cut stages{first_.data(), o_.stages, decided.by_layer ? search_.before() : nullptr};
      model.stages.push_back({.first = first_[i],
                              .last = first_[i + 1],
                              .device = o_.chosen_schedule().worker_of(o_.stages, s),
                              .again = decided.by_layer                                   ? recomputed::layers
                                       : all_again || needs.kept_copies < needs.in_flight ? recomputed::micro_batches
                                                                                          : recomputed::nothing,
                              .memory = memory_of(stage_view(net_, stages, s), needs)});
    }
    return model;
  }

 private:
  static std::vector<memory_requirements> requirements_of_stages(const plan_options& o) {
    std::vector<memory_requirements> needs;
    for (int s = 0; s < o.stages; ++s) needs.push_back(requirements_of(o.chosen_schedule(), o, s));
    return needs;
  }

  void set_cut(const std::vector<int>& boundaries) {
    first_.assign(1, 0);
    first_.insert(first_.end(), boundaries.begin(), boundaries.end());
    first_.push_back(net_.layer_count);
  }

  /// The first layer from which the stage obeys the limit and leaves a layer to each stage before it; -1: none.
  int furthest(int stage, std::int64_t limit) {
    const int end = first_[static_cast<std::size_t>(stage) + 1];
    int fits = end - 1, fails = stage - 1;  // more layers mostly need more bytes
    std::int64_t bytes_of_fit = fits < stage ? limit + 1 : bytes(stage, fits), bytes_of_fail = 0;
    if (bytes_of_fit > limit) return -1;
    int tries = 0;
    for (std::int64_t length = std::max(2, length_); fails < stage && fits > stage; length *= 2) {
      const int begin = static_cast<int>(std::max<std::int64_t>(stage, end - length));
      if (begin >= fits) continue;
      const std::int64_t needed = bytes(stage, begin);
      if (needed <= limit) fits = begin, bytes_of_fit = needed;
      else fails = begin, bytes_of_fail = needed;
    }
    while (fails >= stage && fits - fails > 1) {  // bytes grow almost evenly
      int begin = fails + (fits - fails) / 2;
      if (++tries % 3 != 0) {
        const double share =
            static_cast<double>(bytes_of_fail - limit) / static_cast<double>(bytes_of_fail - bytes_of_fit);
        begin = std::clamp(fails + static_cast<int>(share * (fits - fails) + 0.5), fails + 1, fits - 1);
      }
      const std::int64_t needed = bytes(stage, begin);
      if (needed <= limit) fits = begin, bytes_of_fit = needed;
      else fails = begin, bytes_of_fail = needed;
    }
    // A place with fewer tensors on the edge may be a little further.
    const int window = o_.recompute_whole() == recompute_mode::as_needed && end - fits > 1000 ? 8 : 64;
    for (int begin = std::max(stage, fits - window); begin < fits; ++begin)  // 64: about a cell of AmoebaNet-D
      if (bytes(stage, begin) <= limit) return begin;
    return fits;
  }

  /// The bytes of a stage from `begin` on.
  std::int64_t bytes(int stage, int begin) {
    int& first = first_[static_cast<std::size_t>(stage)];
    first = begin;
    const std::int64_t needed = search_.sufficient_bytes(first_.data(), stage);
    first = 0;
    return needed;
  }

  const network& net_;
  const plan_options& o_;
  std::vector<layer_cost> cost_list_;
  stage_costs costs_;
  std::vector<memory_requirements> needs_;
  gpipe::detail::recompute_search search_;
  std::vector<int> first_;  // of each stage; 0: of one that is not cut yet
  int length_ = 1;          // of the stage packed last
};

/// The limits of a schedule's stages, if each stage of a device gets an equal part of the device's memory.
inline std::vector<std::int64_t> limits_of_stages(const plan_options& o, const std::vector<std::int64_t>& devices) {
  std::vector<std::int64_t> limits;
  for (int s = 0; s < o.stages; ++s)
    limits.push_back(devices[static_cast<std::size_t>(o.chosen_schedule().worker_of(o.stages, s))] /
                     o.stages_beside(s));
  return limits;
}

/// The first layers of all stages but the first of a cut whose devices obey their limits, if packing finds one: then
/// each of a device's stages obeys its equal part. A value that skips a stage may need more slots than packing counts,
/// because the stages before are not cut yet. Then it packs again with a limit that is smaller by these bytes. Much
/// faster than `packed`, which decides what the stages recompute.
inline std::optional<std::vector<int>> packed_boundaries(const network& net, const plan_options& o,
                                                         const std::vector<std::int64_t>& devices) {
  if (o.stages > net.layer_count || o.max_workers() == 0) return {};
  packing packs(net, o);
  const std::vector<std::int64_t> parts = limits_of_stages(o, devices);
  std::vector<std::int64_t> limits = parts;
  for (int tries = 0; tries < 16; ++tries) {
    auto boundaries = packs.boundaries(limits);
    if (!boundaries) return {};
    const std::vector<std::int64_t> bytes = packs.bytes_of(*boundaries);
    bool obeys = true;
    for (std::size_t s = 0; s < parts.size(); ++s) {
      if (bytes[s] <= parts[s]) continue;
      obeys = false;
      limits[s] -= bytes[s] - parts[s];
    }
    if (obeys) return boundaries;
  }
  return {};
}

/// A model whose devices obey their limits, if packing finds one.
inline std::optional<packed_model> packed(const network& net, const plan_options& o,
                                          const std::vector<std::int64_t>& devices) {
  const auto boundaries = packed_boundaries(net, o, devices);
  if (!boundaries) return {};
  return packing(net, o).model_of(*boundaries, limits_of_stages(o, devices));
}

/// The bytes of the device that has most, with all its stages.
inline std::int64_t largest_device_of(const step_plan& p) {
  std::vector<std::int64_t> of(p.stage_plans.size());
  for (int s = 0; s < p.stages(); ++s) of[static_cast<std::size_t>(p.worker_of(s))] += p.memory(s).total();
  return *std::max_element(of.begin(), of.end());
}
inline std::int64_t activations_of(const step_plan& p) {
  std::int64_t sum = 0;
  for (const stage_plan& s : p.stage_plans) sum += activations(s.memory);
  return sum;
}

/// The library's plan with a packed cut. It obeys the limit of each device.
inline std::optional<step_plan> packed_plan(const network& net, plan_options o, std::int64_t limit) {
  const auto found = packed(net, o, std::vector<std::int64_t>(static_cast<std::size_t>(o.max_workers()), limit));
  if (!found) return {};
  std::vector<int> first;
  for (const packed_stage& s : found->stages) first.push_back(s.first);
  first.erase(first.begin());
  o.memory_limit = limit / stages_per_worker(o.schedule, o.chunks);
  return plan_with_cut(net, o, first);
}

/// The plan whose largest device has fewest bytes, to a percent of them.
inline step_plan smallest_devices(const network& net, const plan_options& o) {
  std::int64_t low = 0, high = 1 << 20;
  std::optional<step_plan> best;
  for (; !(best = packed_plan(net, o, high)); high *= 2) low = high;
  while (high - low > high / 100) {
    const std::int64_t middle = low + (high - low) / 2;
    if (auto found = packed_plan(net, o, middle)) {
      best = std::move(found);
      high = middle;
    } else {
      low = middle;
    }
  }
  return std::move(*best);
}

}  // namespace example
