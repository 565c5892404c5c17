#pragma once

#include <cstdint>

#include <gpipe/core/zeroed_array.hpp>
#include <gpipe/plan/partition/checks.hpp>

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

}  // namespace gpipe::detail
