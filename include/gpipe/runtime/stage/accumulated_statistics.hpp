#pragma once

#include <cstddef>
#include <memory>

#include <gpipe/core/config.hpp>

namespace gpipe::detail {

/// What a layer with state has told of the micro-batches of accumulated calls, so that its state moves once, at the
/// commit, by those of the whole mini-batch. In the device's memory, where it was told.
template <class Device>
class told_earlier {
 public:
  using context = typename Device::context;

  /// Keeps what a call has told: `count` micro-batches, `stride` numbers apart. Makes room for one call more, for the
  /// commit may not fail.
  GPIPE_ONCE void keep(const context& c, const double* told, std::ptrdiff_t stride, int count, int most) {
    const auto needed = static_cast<std::size_t>(numbers_ + stride * (count + most)) * sizeof(double);
    if (!room_ || room_->size() < needed) {
      // Twice as much, so that many calls move what they keep a few times.
      std::unique_ptr<arena> larger(new arena(Device::make_arena(c, 2 * needed, std::byte{0})));
      if (numbers_ > 0) c.copy(numbers_, static_cast<const double*>(all()), doubles(*larger));
      c.finish();  // before the old room goes
      room_ = std::move(larger);
    }
    append(c, told, stride, count);
  }
  /// Behind what was kept.
  void append(const context& c, const double* told, std::ptrdiff_t stride, int count) {
    c.copy(stride * count, told, all() + numbers_);
    numbers_ += stride * count;
    count_ += count;
  }
  void forget() noexcept { numbers_ = 0, count_ = 0; }

  int count() const { return count_; }
  double* all() { return doubles(*room_); }

 private:
  using arena = typename Device::arena;
  static double* doubles(const arena& in) { return reinterpret_cast<double*>(in.data()); }

  std::unique_ptr<arena> room_;
  std::ptrdiff_t numbers_ = 0;
  int count_ = 0;
};

}  // namespace gpipe::detail
