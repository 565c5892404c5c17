#pragma once

#include <gpipe/plan/partition/prefix_probe.hpp>
#include <gpipe/plan/partition/transfer_charges.hpp>

namespace gpipe::detail {

/// What every search asks of a problem, summed once: loads and transfers of ranges, and how far a stage's memory goes.
class tables {
 public:
  const partition_problem& of;
  const crossings moved;

  template <class Fits>
  GPIPE_ONCE constexpr tables(const partition_problem& p, const Fits& fits)
      : of(p),
        moved(p),
        sum_(p.kinds * (p.slots + 1)),
        far_(limited<Fits> ? (limits_stages<Fits> ? p.stages : 1) * p.slots : 0),
        reach_(limited<Fits> ? (limits_stages<Fits> ? p.stages : 1) * p.slots : 0),
        far_step_(limits_stages<Fits> ? p.slots : 0),
        limited_(limited<Fits>) {
    for (int k = 0; k < p.kinds; ++k)
      for (int l = 0; l < p.slots; ++l) {
        const slot_cost& cost = p.costs[k * p.slots + l];
        if (cost.forward < 0 || cost.backward < 0) bad_cost(l, cost);
        const load& before = sum_[k * (p.slots + 1) + l];
        sum_[k * (p.slots + 1) + l + 1] = {before.forward + cost.forward, before.backward + cost.backward,
                                           add(before.both, add(cost.forward, cost.backward))};
      }
    sum_extremes();
    if constexpr (limited<Fits>)
      for (int s = 0; s < (limits_stages<Fits> ? p.stages : 1); ++s)
        for (int begin = 0, end = 0, reach = 0; begin < p.slots; ++begin) {
          if (end < begin) end = begin;
          // What enters a stage counts too, so one that begins later may get less far.
          if (end > begin && !stage_fits(fits, s, begin, end)) {
            int low = begin, high = end;  // `high` does not fit
            while (high - low > 1) {
              const int middle = low + (high - low) / 2;
              (stage_fits(fits, s, begin, middle) ? low : high) = middle;
            }
            end = low;
          }
          while (end < p.slots && stage_fits(fits, s, begin, end + 1)) ++end;
          if (end < reach) orderly_ = false;
          else reach = end;
          far_[s * far_step_ + begin] = end;
          reach_[s * far_step_ + begin] = reach;
        }
  }

  /// Running sums of the slots' loads on a stage's device.
  constexpr const load* sums(int stage) const { return sum_.data() + of.kind(stage) * (of.slots + 1); }
  constexpr load range(int stage, int begin, int end) const {
    const load* sum = sums(stage);
    return {sum[end].forward - sum[begin].forward, sum[end].backward - sum[begin].backward,
            sum[end].both - sum[begin].both};
  }
  /// The furthest end that a stage's memory allows, and the furthest from here or from any slot before.
  constexpr int furthest(int stage, int begin) const {
    return limited_ && begin < of.slots ? far_[stage * far_step_ + begin] : of.slots;
  }
  constexpr int reach(int stage, int begin) const {
    return limited_ && begin < of.slots ? reach_[stage * far_step_ + begin] : of.slots;
  }
  /// Whether these are the same everywhere.
  constexpr bool orderly() const { return orderly_; }

  /// The sum of f + b with every slot where it costs least, and with it and all transfers where they cost most.
  constexpr std::int64_t least_sum() const { return least_; }
  constexpr std::int64_t most_sum() const { return most_; }

 private:
  template <class Fits>
  static constexpr bool limited = !std::is_same_v<Fits, fits_always>;

  constexpr std::int64_t add(std::int64_t a, std::int64_t b) const { return added(a, b, of.slots, of.micro_batches); }

  GPIPE_ONCE constexpr void sum_extremes() {
    for (int l = 0; l < of.slots; ++l) {
      std::int64_t least = unlimited, most = 0;
      for (int k = 0; k < of.kinds; ++k) {
        const slot_cost& on = of.costs[k * of.slots + l];
        if (on.forward + on.backward < least) least = on.forward + on.backward;
        if (on.forward + on.backward > most) most = on.forward + on.backward;
      }
      least_ += least;
      most_ = add(most_, most);
    }
    for (int i = 0; i < of.transfer_count; ++i) most_ = add(most_, of.transfers[i].charge());
    if (of.goal == objective::fill_drain && most_ > (unlimited - 1) / of.micro_batches)
      cost_overflow(of.slots, of.micro_batches);
  }

  scratch<load> sum_;  // [kind][slot]
  scratch<int> far_, reach_;  // [stage][begin], or one row for all stages
  int far_step_;
  bool limited_, orderly_ = true;
  std::int64_t least_ = 0, most_ = 0;
};

}  // namespace gpipe::detail
