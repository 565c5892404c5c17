#pragma once

#include <cstdint>

#include <gpipe/core/zeroed_array.hpp>
#include <gpipe/plan/partition/objective.hpp>

namespace gpipe::detail {

/// A problem's transfers, sorted by reading layer, to sum the charges of a growing stage.
class transfer_charges {
 public:
  struct reading {
    int writer, before;  ///< the previous reader of the value, or else its writer
    bool last;
    std::int64_t charge;
  };

 private:  // before its use: clang 14 evaluates no member template before its definition
  template <class Visit>
  static constexpr void each_reading(const partition_problem& p, const Visit& visit) {
    for (int i = 0; i < p.transfer_count; ++i) {
      const transfer& t = p.transfers[i];
      for (int r = 0, before = t.writer; r < t.reader_count; before = t.reader(r++))
        if (t.time > 0 && t.reader(r) != before)
          visit(t.reader(r), reading{t.writer, before, t.reader(r) == t.last_reader(), t.charge()});
    }
  }

 public:
  GPIPE_COLD constexpr explicit transfer_charges(const partition_problem& p)
      : first_(p.layers + 1), readings_(count(p)), written_(p.layers), any_(false) {
    each_reading(p, [this](int layer, const reading&) { ++first_[layer + 1]; });
    for (int l = 0; l < p.layers; ++l) first_[l + 1] += first_[l];
    const zeroed_array<int> filled(p.layers);
    each_reading(p, [&](int layer, const reading& entry) {
      readings_[first_[layer] + filled[layer]++] = entry;
      if (entry.before == entry.writer) written_[entry.writer] += entry.charge;
      any_ = true;
    });
  }

  constexpr bool any() const { return any_; }

  /// The charges of a stage that starts at `begin` while layer after layer is added.
  ///
  ///     begin          layer
  ///     [--------------]          receives a value written before `begin` at its first reader inside,
  ///          w ----------> r      sends a value written inside, until its last reader is inside, too
  class running_charge {
   public:
    constexpr running_charge(const transfer_charges& charges, int begin) : charges_(charges), begin_(begin) {}

    constexpr void add(int layer) {
      for (int i = charges_.first_[layer]; i < charges_.first_[layer + 1]; ++i) {
        const reading& entry = charges_.readings_[i];
        if (entry.before < begin_) charge_ += entry.charge;
        if (entry.last && entry.writer >= begin_) charge_ -= entry.charge;
      }
      charge_ += charges_.written_[layer];
    }
    constexpr std::int64_t charge() const { return charge_; }

   private:
    const transfer_charges& charges_;
    int begin_;
    std::int64_t charge_ = 0;
  };

 private:
  static constexpr int count(const partition_problem& p) {
    int sum = 0;
    for (int i = 0; i < p.transfer_count; ++i) sum += p.transfers[i].reader_count;
    return sum;
  }

  zeroed_array<int> first_;
  zeroed_array<reading> readings_;
  zeroed_array<std::int64_t> written_;
  bool any_;
};

/// A problem's sums for all searches: loads and transfers of ranges, and the range that each stage's memory can hold.
class range_sums {
 public:
  const partition_problem& problem;
  const transfer_charges moved;

  template <class Fits>
  GPIPE_COLD constexpr range_sums(const partition_problem& p, const Fits& fits)
      : problem(p),
        moved(p),
        sum_(p.kinds * (p.layers + 1)),
        furthest_(limited<Fits> ? (limits_stages<Fits> ? p.stages : 1) * p.layers : 0),
        reach_(limited<Fits> ? (limits_stages<Fits> ? p.stages : 1) * p.layers : 0),
        step_(limits_stages<Fits> ? p.layers : 0),
        limited_(limited<Fits>) {
    for (int k = 0; k < p.kinds; ++k)
      for (int l = 0; l < p.layers; ++l) {
        const pass_cost& cost = p.costs[k * p.layers + l];
        require_cost(l, cost);
        const load& before = sum_[k * (p.layers + 1) + l];
        sum_[k * (p.layers + 1) + l + 1] = {before.forward + cost.forward, before.backward + cost.backward,
                                            add(before.both, add(cost.forward, cost.backward)),
                                            before.recompute + cost.recompute};
      }
    sum_extremes();
    if constexpr (limited<Fits>)
      for (int s = 0; s < (limits_stages<Fits> ? p.stages : 1); ++s) {
        if (const int equal_stage = same_before(fits, s); equal_stage < s) {
          for (int begin = 0; begin < p.layers; ++begin) {
            furthest_[s * step_ + begin] = furthest_[equal_stage * step_ + begin];
            reach_[s * step_ + begin] = reach_[equal_stage * step_ + begin];
          }
          continue;
        }
        for (int begin = 0, end = 0, reach = 0; begin < p.layers; ++begin) {
          if (end < begin) end = begin;
          // The values that enter a stage count, too, so a later begin may reach less far.
          if (end > begin && !stage_fits(fits, s, begin, end)) {
            int low = begin, high = end;  // `high` does not fit
            while (high - low > 1) {
              const int middle = low + (high - low) / 2;
              (stage_fits(fits, s, begin, middle) ? low : high) = middle;
            }
            end = low;
          }
          while (end < p.layers && stage_fits(fits, s, begin, end + 1)) ++end;
          if (end < reach) monotone_ = false;
          else reach = end;
          furthest_[s * step_ + begin] = end;
          reach_[s * step_ + begin] = reach;
        }
      }
  }

  /// Running sums of the layers' loads on a stage's device.
  constexpr const load* sums(int stage) const { return sum_.data() + problem.kind(stage) * (problem.layers + 1); }
  constexpr load range(int stage, int begin, int end) const {
    const load* sum = sums(stage);
    return {sum[end].forward - sum[begin].forward, sum[end].backward - sum[begin].backward,
            sum[end].both - sum[begin].both, sum[end].recompute - sum[begin].recompute};
  }
  /// The furthest end that a stage's memory allows from `begin`; then, the furthest from `begin` or any layer before
  /// it.
  constexpr int furthest(int stage, int begin) const {
    return limited_ && begin < problem.layers ? furthest_[stage * step_ + begin] : problem.layers;
  }
  constexpr int reach(int stage, int begin) const {
    return limited_ && begin < problem.layers ? reach_[stage * step_ + begin] : problem.layers;
  }
  /// Whether the two are equal for every begin.
  constexpr bool monotone() const { return monotone_; }

  /// The sum of f + b with every layer on its fastest device; the same without recomputes; then, on its slowest
  /// device and with all transfers.
  constexpr std::int64_t min_sum() const { return min_; }
  constexpr std::int64_t min_once() const { return min_once_; }
  constexpr std::int64_t max_sum() const { return max_; }

 private:
  template <class Fits>
  static constexpr bool limited = !std::is_same_v<Fits, fits_always>;

  /// The first stage whose limits equal the limits of stage `s`, if `fits` can compare them: to lay out memory is slow.
  template <class Fits>
  static constexpr int same_before(const Fits& fits, int s) {
    int first = s;
    if constexpr (requires { fits.same(0, 1); })
      for (first = 0; first < s && !fits.same(first, s);) ++first;
    return first;
  }

  constexpr std::int64_t add(std::int64_t a, std::int64_t b) const {
    return added(a, b, problem.layers, problem.micro_batches);
  }

  GPIPE_COLD constexpr void sum_extremes() {
    for (int l = 0; l < problem.layers; ++l) {
      std::int64_t min = unlimited, once = unlimited, max = 0;
      for (int k = 0; k < problem.kinds; ++k) {
        const pass_cost& cost = problem.costs[k * problem.layers + l];
        if (cost.forward + cost.backward < min) min = cost.forward + cost.backward;
        if (cost.forward + cost.backward - cost.recompute < once) once = cost.forward + cost.backward - cost.recompute;
        if (cost.forward + cost.backward > max) max = cost.forward + cost.backward;
      }
      min_ += min;
      min_once_ += once;
      max_ = add(max_, max);
    }
    for (int i = 0; i < problem.transfer_count; ++i) max_ = add(max_, problem.transfers[i].charge());
    if (problem.goal == objective::fill_drain && max_ > (unlimited - 1) / problem.micro_batches)
      cost_overflow(problem.layers, problem.micro_batches);
  }

  zeroed_array<load> sum_;              // [kind][layer]
  zeroed_array<int> furthest_, reach_;  // [stage][begin], or one row for all stages
  int step_;
  bool limited_, monotone_ = true;
  std::int64_t min_ = 0, min_once_ = 0, max_ = 0;
};

}  // namespace gpipe::detail
