#pragma once

#include <vector>

#include <gpipe/runtime/step_state.hpp>

namespace gpipe::detail {

/// What a layer with state has told of the micro-batches of accumulated calls, so that its state moves once, at the
/// commit, by those of the whole mini-batch.
class told_earlier {
 public:
  /// Keeps what a call has told: `count` micro-batches, `stride` numbers apart. Makes room for one call more, for the
  /// commit may not fail.
  void keep(const double* told, std::ptrdiff_t stride, int count, int most) {
    numbers_.reserve(numbers_.size() + static_cast<std::size_t>(stride * (count + most)));
    append(told, stride, count);
  }
  /// Behind what was kept.
  void append(const double* told, std::ptrdiff_t stride, int count) {
    numbers_.insert(numbers_.end(), told, told + stride * count);
    count_ += count;
  }
  void forget() noexcept {
    numbers_.clear();
    count_ = 0;
  }

  int count() const { return count_; }
  double* all() { return numbers_.data(); }

 private:
  std::vector<double> numbers_;
  int count_ = 0;
};

}  // namespace gpipe::detail
