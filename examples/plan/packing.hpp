#pragma once

// Packs a network into the memory of devices, stage by stage.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <gpipe/plan.hpp>
#include <gpipe/plan/make_plan.hpp>
#include <gpipe/plan/options/layer_pattern.hpp>
#include <gpipe/plan/recompute/place_recomputes.hpp>

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

/// Cuts a network into stages that obey their limits, from the last stage on, each as long as it can be. The gradients
/// that return to a stage depend on the stages behind it, which are known then.
///
/// With recompute as needed a stage recomputes nothing if that fits, else whole micro-batches, as few as possible, else
/// every layer that has one input. The library's plan of the same cut takes the layers that cost the least time.
class packing {
 public:
  packing(const network& net, const plan_options& o)
      : net_(net),
        o_(o),
        as_needed_(o.recompute_whole() == recompute_mode::as_needed),
        marked_(new bool[static_cast<std::size_t>(net.layer_count)]),
        before_(static_cast<std::size_t>(net.layer_count), -1) {
    for (int s = 0; s < o.stages; ++s) needs_.push_back(requirements_of(o.chosen_schedule(), o, s));
    for (int l = 0; l < net.layer_count; ++l)
      marked_[static_cast<std::size_t>(l)] = net.layers[l].reads < 2 && !gpipe::detail::always_keeps(net, l);
  }

  /// The first layers of all stages but the first; none: no stage in the front fits what is left.
  std::optional<std::vector<int>> boundaries(const std::vector<std::int64_t>& limits) {
    std::vector<int> first{net_.layer_count};  // of the stages so far, the earliest first
    length_ = net_.layer_count / o_.stages + 1;
    for (int s = o_.stages - 1; s >= 0; --s) {
      const std::int64_t limit = limits[static_cast<std::size_t>(s)];
      const int begin = s == 0 ? 0 : furthest(s, first, limit);
      if (begin < 0 || bytes(s, begin, first, limit) > limit) return {};
      length_ = first.front() - begin;
      first.insert(first.begin(), begin);
    }
    return std::vector<int>(first.begin() + 1, first.end() - 1);
  }

  /// The stages of a cut, each with what it recomputes to obey its limit.
  packed_model model_of(const std::vector<int>& boundaries, const std::vector<std::int64_t>& limits) {
    std::vector<int> first{0};
    first.insert(first.end(), boundaries.begin(), boundaries.end());
    first.push_back(net_.layer_count);
    packed_model made;
    for (int s = 0; s < o_.stages; ++s) {
      const auto at = static_cast<std::size_t>(s);
      packed_stage& it = made.stages.emplace_back();
      it.first = first[at];
      it.last = first[at + 1];
      it.device = o_.chosen_schedule().worker_of(o_.stages, s);
      choose({first.data(), o_.stages}, s, limits[at], it);
    }
    return made;
  }

 private:
  /// The first layer from which the stage obeys the limit and leaves a layer to each stage before it; -1: none.
  int furthest(int stage, const std::vector<int>& behind, std::int64_t limit) {
    const int end = behind.front();
    int fits = end - 1, fails = stage - 1;  // more layers mostly need more bytes
    std::int64_t bytes_of_fit = fits < stage ? limit + 1 : bytes(stage, fits, behind, limit), bytes_of_fail = 0;
    if (bytes_of_fit > limit) return -1;
    int tries = 0;
    for (std::int64_t length = std::max(2, length_); fails < stage && fits > stage; length *= 2) {
      const int begin = static_cast<int>(std::max<std::int64_t>(stage, end - length));
      if (begin >= fits) continue;
      const std::int64_t needed = bytes(stage, begin, behind, limit);
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
      const std::int64_t needed = bytes(stage, begin, behind, limit);
      if (needed <= limit) fits = begin, bytes_of_fit = needed;
      else fails = begin, bytes_of_fail = needed;
    }
    // A place with fewer tensors on the edge may be a little further.
    const int window = as_needed_ && end - fits > 1000 ? 8 : 64;  // about a cell of AmoebaNet-D
    for (int begin = std::max(stage, fits - window); begin < fits; ++begin)
      if (bytes(stage, begin, behind, limit) <= limit) return begin;
    return fits;
  }

  /// The fewest bytes of a stage, or the first number that obeys the limit.
  std::int64_t bytes(int stage, int begin, const std::vector<int>& behind, std::int64_t limit) {
    std::vector<int> first;  // one stage for all before
    if (stage > 0) first.push_back(0);
    first.push_back(begin);
    first.insert(first.end(), behind.begin(), behind.end());
    const cut whole{first.data(), static_cast<int>(first.size()) - 1};
    const memory_requirements& needs = needs_[static_cast<std::size_t>(stage)];
    const std::int64_t plain = memory_of(stage_view(net_, whole, stage > 0), needs).total();
    if (plain <= limit || !may_recompute_layers(needs)) return plain;
    return std::min(plain, by_layer(whole, stage > 0, needs).total());
  }

  // Parameter parts that come early would overtake gradients that leave.
  bool may_recompute_layers(const memory_requirements& needs) const { return as_needed_ && !needs.gradients_leave; }
  static memory_requirements all_kept(memory_requirements needs) {
    needs.kept_copies = std::max(needs.kept_copies, needs.in_flight);
    return needs;
  }
  stage_memory by_layer(cut whole, int index, const memory_requirements& needs) {
    gpipe::detail::place_recomputes(net_, whole.first[index], whole.first[index + 1], marked_.get(), before_.data());
    whole.recomputed_before = before_.data();
    return memory_of(stage_view(net_, whole, index), all_kept(needs));
  }

  void choose(const cut& whole, int stage, std::int64_t limit, packed_stage& it) {
    const stage_view view(net_, whole, stage);
    memory_requirements needs = needs_[static_cast<std::size_t>(stage)];
    const bool always = o_.recompute == recompute_mode::always || o_.recompute == recompute_mode::except_last;
    it.again = always ? recomputed::micro_batches : recomputed::nothing;
    it.memory = memory_of(view, as_needed_ ? all_kept(needs) : needs);
    if (!as_needed_ || it.memory.total() <= limit) return;
    it.again = recomputed::micro_batches;
    needs.kept_copies = max_working_sets(
        needs, [&](const memory_requirements& with) { return memory_of(view, with).total() <= limit; });
    it.memory = memory_of(view, needs);
    if (it.memory.total() <= limit || !may_recompute_layers(needs)) return;
    const stage_memory layers = by_layer(whole, stage, needs);
    if (layers.total() > it.memory.total()) return;
    it.again = recomputed::layers;
    it.memory = layers;
  }

  const network& net_;
  const plan_options& o_;
  bool as_needed_;
  std::unique_ptr<bool[]> marked_;  // the layers that may run again
  std::vector<int> before_;
  std::vector<memory_requirements> needs_;
  int length_ = 1;  // of the stage packed last
};

/// The limits of a schedule's stages, if each stage of a device gets an equal part of the device's memory.
inline std::vector<std::int64_t> limits_of_stages(const plan_options& o, const std::vector<std::int64_t>& devices) {
  std::vector<std::int64_t> limits;
  for (int s = 0; s < o.stages; ++s)
    limits.push_back(devices[static_cast<std::size_t>(o.chosen_schedule().worker_of(o.stages, s))] /
                     o.stages_beside(s));
  return limits;
}

/// A model of which every device obeys its limit, if packing finds one. A value that skips a stage may need more slots
/// than packing counts, which knows no stage before: then it packs again, by that much less.
inline std::optional<packed_model> packed(const network& net, const plan_options& o,
                                          const std::vector<std::int64_t>& devices) {
  if (o.stages > net.layer_count || o.max_workers() == 0) return {};
  packing packs(net, o);
  const std::vector<std::int64_t> parts = limits_of_stages(o, devices);
  std::vector<std::int64_t> limits = parts;
  for (int tries = 0; tries < 16; ++tries) {
    const auto first = packs.boundaries(limits);
    if (!first) return {};
    packed_model made = packs.model_of(*first, limits);
    const auto of = made.bytes_of_devices();
    bool obeys = true;
    for (std::size_t s = 0; s < parts.size(); ++s) {
      const packed_stage& it = made.stages[s];
      const auto device = static_cast<std::size_t>(it.device);
      const bool by_stage = o.recompute == recompute_mode::as_needed;  // as the library's plan decides recomputes
      const std::int64_t above = std::max(of[device] - devices[device], by_stage ? it.memory.total() - parts[s] : 0);
      if (above <= 0) continue;
      obeys = false;
      limits[s] -= above;
    }
    if (obeys) return made;
  }
  return {};
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
  if (o.recompute_whole() == recompute_mode::as_needed)
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
