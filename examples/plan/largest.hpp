#pragma once

// The largest model of a family that fits a number of devices.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "packing.hpp"
#include "stretched.hpp"

namespace example {

using namespace gpipe;

/// Models that differ in depth: a compiled network, and its repetitions that may follow again.
struct family_member {
  std::string width;  ///< what all of them share, such as "D = 416"
  const network* net = nullptr;
  std::vector<repetition> parts;
  int depth = 0, step = 1;  ///< of the compiled network, and of one more repetition

  int depth_of(int more) const { return depth + step * more; }
  /// The most repetitions with which the model has at most `layers` layers.
  int max_more(int layers) const {
    int body = 0;
    for (const repetition& r : parts) body += r.length();
    return body > 0 ? std::max(0, layers - net->layer_count) / body : 0;
  }
};

/// The packed copies of weights that stages keep.
enum class packed_copies {
  automatic,  ///< the plan decides: all of them, or fewer under a memory limit
  shared,     ///< one for all layers of a stage
  kept        ///< both of every weight
};

/// One way to train a model.
struct configuration {
  schedule_kind schedule = schedule_kind::fill_drain;
  recompute_mode recompute = recompute_mode::always;
  packed_copies packed = packed_copies::automatic;

  /// For `devices` devices.
  plan_options of(plan_options o, std::size_t devices) const {
    o.schedule = schedule;
    o.stages = static_cast<int>(devices) * stages_per_worker(schedule);
    o.recompute = recompute;
    o.share_packed_weights = packed == packed_copies::shared;
    o.keep_packed_weights = packed == packed_copies::kept;
    o.group_gradients = 1;
    return o;
  }
};

// change: a schedule; by the time of its step
/// The schedules that train, those with the shortest step first.
inline constexpr schedule_kind by_step[] = {
    schedule_kind::zb_2p, schedule_kind::zb_v,        schedule_kind::dual_pipe_v, schedule_kind::interleaved_zb,
    schedule_kind::zb_h1, schedule_kind::v_half,      schedule_kind::interleaved, schedule_kind::looped_bfs,
    schedule_kind::v_min, schedule_kind::one_f_one_b, schedule_kind::fill_drain};

/// All configurations for a number of devices, those that slow a step down least first: recompute as needed in every
/// schedule, first with the packed copies that the plan decides to keep, then with shared ones.
inline std::vector<configuration> all_configurations(std::size_t devices) {
  std::vector<configuration> all;
  for (const packed_copies packed : {packed_copies::automatic, packed_copies::shared})
    for (const schedule_kind kind : by_step)
      if (devices > 1 || kind == schedule_kind::one_f_one_b) all.push_back({kind, recompute_mode::as_needed, packed});
  return all;
}

/// A device that has too little memory.
struct shortage {
  int device = -1;
  std::int64_t bytes = 0;  ///< that it would need
};

/// The deepest model of a family that fits.
struct largest_model {
  int more = -1;      ///< further repetitions; -1: not even the compiled model fits
  bool whole = true;  ///< no deeper one fits; else the search ended at `max_more`
  std::size_t parameters = 0;
  configuration with;  ///< the first that fits
  packed_model plan;
  shortage next;  ///< of the next deeper model, or of the compiled one, which does not fit
};

/// Looks for the deepest model of a family that obeys the limits of the devices in any of some configurations.
class largest_search {
 public:
  /// `o`: what all configurations have in common.
  largest_search(const family_member& of, const plan_options& o, std::vector<std::int64_t> devices)
      : of_(of), o_(o), devices_(std::move(devices)) {}

  largest_model find(const std::vector<configuration>& all, int max_more) {
    largest_model best;
    const configuration* with = nullptr;  // of the deepest so far
    // Backwards: the last ones need least memory, and then the others mostly fail at once.
    for (auto it = all.rbegin(); it != all.rend(); ++it)
      if (const int more = deepest(*it, best.more, max_more); more > best.more) best.more = more, with = &*it;
    best.whole = best.more < max_more;
    for (const configuration& it : all) {
      if (best.more < 0) break;
      const stretched made(*of_.net, of_.parts, best.more);
      auto found = packed(made.net(), it.of(o_, devices_.size()), devices_);
      if (!found) continue;
      best.plan = std::move(*found);
      best.with = it;
      break;
    }
    if (best.more >= 0) best.parameters = stretched(*of_.net, of_.parts, best.more).net().parameters();
    if (best.whole) best.next = lacks(with != nullptr ? *with : all.back(), best.more + 1);
    return best;
  }

 private:
  /// The most repetitions that fit; `least` if they are no more.
  int deepest(const configuration& it, int least, int max_more) const {
    const int stages = it.of(o_, devices_.size()).stages;
    int low = least + 1;  // the first with a layer for each stage
    int layers = of_.net->layer_count, body = 0;
    for (const repetition& r : of_.parts) body += r.length();
    while (low <= max_more && layers + low * body < stages && body > 0) ++low;
    const auto fits = [&](int more) {
      const stretched made(*of_.net, of_.parts, more);
      return packed_boundaries(made.net(), it.of(o_, devices_.size()), devices_).has_value();
    };
    if (low > max_more || !fits(low)) return least;
    int high = low + 1;  // low fits
    for (int further = 1; high < max_more && fits(high); further *= 2) {
      low = high;
      high = low + (least >= 0 ? further : low);
    }
    high = std::min(high, max_more + 1);
    while (high - low > 1) {
      const int middle = low + (high - low) / 2;
      (fits(middle) ? low : high) = middle;
    }
    return low;
  }

  /// Which device exceeds its limit most if all limits grow until the model fits.
  shortage lacks(const configuration& it, int more) const {
    const auto with_more = [&](std::int64_t bytes) {
      std::vector<std::int64_t> devices = devices_;
      for (std::int64_t& limit : devices) limit += bytes;
      return devices;
    };
    const stretched made(*of_.net, of_.parts, more);
    const plan_options o = it.of(o_, devices_.size());
    const auto fits_with = [&](std::int64_t bytes) {
      return packed_boundaries(made.net(), o, with_more(bytes)).has_value();
    };
    const std::int64_t most = *std::max_element(devices_.begin(), devices_.end());
    std::int64_t low = 0, high = std::max<std::int64_t>(most / 64, 1 << 10);
    while (!fits_with(high)) {
      if (high > max_bytes) return {};  // no number of bytes helps: the model has too few layers
      low = high, high *= 2;
    }
    for (int i = 0; i < 5; ++i) {
      const std::int64_t middle = low + (high - low) / 2;
      (fits_with(middle) ? high : low) = middle;
    }
    const auto bytes = packed(made.net(), o, with_more(high))->bytes_of_devices();
    shortage worst{0, bytes[0]};
    for (std::size_t d = 1; d < devices_.size(); ++d)
      if (bytes[d] - devices_[d] > worst.bytes - devices_[static_cast<std::size_t>(worst.device)])
        worst = {static_cast<int>(d), bytes[d]};
    // The packed stages may keep within all devices where the search for them does not.
    const std::int64_t limit = devices_[static_cast<std::size_t>(worst.device)];
    if (worst.bytes <= limit) worst.bytes = limit + high;
    return worst;
  }

  static constexpr std::int64_t max_bytes = std::int64_t{1} << 50;
  const family_member& of_;
  const plan_options& o_;
  std::vector<std::int64_t> devices_;
};

/// The same in one configuration, that of `o`, on devices of the same memory.
inline largest_model largest_of(const family_member& of, const plan_options& o, std::int64_t limit, int max_more) {
  const auto devices = static_cast<std::size_t>(o.stages / stages_per_worker(o.schedule));
  largest_search search(of, o, std::vector<std::int64_t>(devices, limit));
  const packed_copies packed = o.share_packed_weights  ? packed_copies::shared
                               : o.keep_packed_weights ? packed_copies::kept
                                                       : packed_copies::automatic;
  return search.find({{o.schedule, o.recompute, packed}}, max_more);
}

}  // namespace example
