#pragma once

// The largest model of a family that fits a number of devices.

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gpipe/plan.hpp>
#include <gpipe/plan/make_plan.hpp>

#include "stretched.hpp"
#include "text.hpp"

namespace example {

using namespace gpipe;

/// Models that differ in depth: a compiled network, and its repetitions that may follow again.
struct family_member {
  std::string width;  ///< what all of them share, such as "D = 416"
  const network* net = nullptr;
  std::vector<repetition> parts;
  int depth = 0, step = 1;  ///< of the compiled network, and of one more repetition

  int depth_of(int more) const { return depth + step * more; }
};

/// Bytes that depend on the batch: all but parameters, what the optimizer keeps of them, and their packed copies.
constexpr std::int64_t activations(const stage_memory& m) {
  return m.total() - m.of(memory_kind::parameters) - m.of(memory_kind::gradients) - m.of(memory_kind::moments) -
         m.of(memory_kind::derived);
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

/// Cuts a network into stages of at most `limit` bytes, from the last stage on, each as long as it can be. The
/// gradients that return to a stage depend on the stages behind it, which are known then.
class packing {
 public:
  packing(const network& net, const plan_options& o) : net_(net), o_(o) {
    for (int s = 0; s < o.stages; ++s) needs_.push_back(requirements_of(o.chosen_schedule(), o, s));
  }

  /// The first layers of all stages but the first; none: no stage in the front fits what is left.
  std::optional<std::vector<int>> boundaries(std::int64_t limit) const {
    std::vector<int> first{net_.layer_count};  // of the stages so far, the earliest first
    for (int s = o_.stages - 1; s >= 0; --s) {
      const int begin = s == 0 ? 0 : furthest(s, first, limit);
      if (begin < 0 || bytes(s, begin, first) > limit) return {};
      first.insert(first.begin(), begin);
    }
    return std::vector<int>(first.begin() + 1, first.end() - 1);
  }

 private:
  /// The first layer from which the stage obeys the limit and leaves a layer to each stage before it; -1: none.
  int furthest(int stage, const std::vector<int>& behind, std::int64_t limit) const {
    int low = stage, high = behind.front() - 1;  // more layers mostly need more bytes
    if (low > high || bytes(stage, high, behind) > limit) return -1;
    while (low < high) {
      const int middle = low + (high - low) / 2;
      if (bytes(stage, middle, behind) <= limit) high = middle;
      else low = middle + 1;
    }
    // A place with fewer tensors on the edge may be a little further.
    for (int begin = std::max(stage, high - window); begin < high; ++begin)
      if (bytes(stage, begin, behind) <= limit) return begin;
    return high;
  }

  std::int64_t bytes(int stage, int begin, const std::vector<int>& behind) const {
    std::vector<int> first;  // one stage for all before
    if (stage > 0) first.push_back(0);
    first.push_back(begin);
    first.insert(first.end(), behind.begin(), behind.end());
    const cut whole{first.data(), static_cast<int>(first.size()) - 1};
    return memory_of(stage_view(net_, whole, stage > 0), needs_[static_cast<std::size_t>(stage)]).total();
  }

  static constexpr int window = 64;  // about a cell of AmoebaNet-D

  const network& net_;
  const plan_options& o_;
  std::vector<memory_requirements> needs_;
};

/// A plan of which every device obeys the limit, if packing finds one: each of a device's stages gets an equal part. A
/// value that skips a stage may need more slots than packing counts, which knows no stage before: then it packs again,
/// by that much less.
inline std::optional<step_plan> packed_plan(const network& net, const plan_options& o, std::int64_t limit) {
  if (o.stages > net.layer_count) return {};
  const packing packs(net, o);
  const std::int64_t part = limit / stages_per_worker(o.schedule, o.chunks);
  for (std::int64_t of_stage = part; of_stage > part / 2;) {
    const auto first = packs.boundaries(of_stage);
    if (!first) return {};
    step_plan made = plan_with_cut(net, o, *first);
    const std::int64_t max = largest_device_of(made);
    if (max <= limit) return made;
    of_stage -= max - limit;
  }
  return {};
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

/// The deepest model of a family that fits.
struct largest_model {
  int more = -1;      ///< further repetitions; -1: not even the compiled model fits
  bool whole = true;  ///< no deeper one fits; else the search ended at `max_more`
  std::size_t parameters = 0;
  std::int64_t largest_device = 0, activations = 0;
};

inline largest_model largest_of(const family_member& of, const plan_options& o, std::int64_t limit, int max_more) {
  largest_model best;
  const auto fits = [&](int more) {
    const stretched made(*of.net, of.parts, more);
    const network net = made.net();
    const auto plan = packed_plan(net, o, limit);
    if (plan) best = {more, more < max_more, net.parameters(), largest_device_of(*plan), activations_of(*plan)};
    return plan.has_value();
  };
  int low = 0;  // the first with a layer for each stage
  for (int layers = of.net->layer_count; layers < o.stages && low <= max_more; ++low)
    for (const repetition& r : of.parts) layers += r.length();
  if (low > max_more || !fits(low)) return best;
  int high = low + 1;  // low fits
  while (high < max_more && fits(high)) {
    low = high;
    high *= 2;
  }
  high = std::min(high, max_more + 1);
  while (high - low > 1) {
    const int middle = low + (high - low) / 2;
    (fits(middle) ? low : high) = middle;
  }
  return best;
}

}  // namespace example
