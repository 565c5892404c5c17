#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include <gpipe/core/index.hpp>
#include <gpipe/runtime/binding/kernel_call.hpp>
#include <gpipe/runtime/stage/stage_arena.hpp>

namespace gpipe::detail {

/// The partials that a layer with state has computed in accumulated calls. Its state moves once, at the commit, by the
/// partials of the whole mini-batch. They stay in the device's memory.
template <class Device>
class accumulated_statistics {
 public:
  using context = typename Device::context;

  /// Keeps the partials of a call: `count` micro-batches, `stride` numbers apart. Makes room for `max_count` more,
  /// because the commit must not fail.
  GPIPE_COLD void keep(const context& c, const double* partials, std::ptrdiff_t stride, int count, int max_count) {
    const auto needed = static_cast<std::size_t>(numbers_ + stride * (count + max_count)) * sizeof(double);
    if (!room_ || room_->size() < needed) {
      // Twice the size, so that a long series of calls copies its partials only a few times.
      std::unique_ptr<arena> larger(new arena(Device::make_arena(c, 2 * needed, std::byte{0})));
      if (numbers_ > 0) c.copy(numbers_, static_cast<const double*>(all()), doubles(*larger));
      c.finish();  // before the old arena is freed
      room_ = std::move(larger);
    }
    append(c, partials, stride, count);
  }
  /// Adds partials behind those that were kept.
  void append(const context& c, const double* partials, std::ptrdiff_t stride, int count) {
    c.copy(stride * count, partials, all() + numbers_);
    numbers_ += stride * count;
    count_ += count;
  }
  void clear() noexcept { numbers_ = 0, count_ = 0; }

  int count() const { return count_; }
  double* all() { return doubles(*room_); }

 private:
  using arena = typename Device::arena;
  static double* doubles(const arena& in) { return reinterpret_cast<double*>(in.data()); }

  std::unique_ptr<arena> room_;
  std::ptrdiff_t numbers_ = 0;
  int count_ = 0;
};

/// The partials that the layers of a stage compute for each micro-batch, such as batch statistics and the loss, and the
/// layers' state, which changes by them at the commit.
template <class Device>
class layer_statistics {
 public:
  layer_statistics(const runtime_plan& plan, const stage_arena<Device>& stage) : plan_(plan), stage_(stage) {}

  /// Makes room for the partials of accumulated calls, once the stage is bound.
  GPIPE_COLD void reserve() {
    for (const auto& b : stage_.slots())
      if (b.kernels->absorb != nullptr) earlier_.resize(stage_.slots().size());
  }

  /// Calls `f(block)` for the partials of each slot that has some.
  template <class Call>
  void each(Call&& f) const {
    for (const auto& b : stage_.slots())
      if (b.partials.base != nullptr) f(b.partials);
  }
  /// Copies the partials that the same stage of another replica computed in the step `theirs`.
  GPIPE_OUT_OF_LINE void copy_from(const layer_statistics& other, const step_context& theirs) const {
    for (std::size_t i = 0; i < stage_.slots().size(); ++i) {
      const block_address &from = other.stage_.slots()[i].partials, &into = stage_.slots()[i].partials;
      if (from.base == nullptr) continue;
      const std::size_t before = from.stride * index(theirs.first_micro_batch);
      stage_.context().copy(static_cast<std::ptrdiff_t>(from.stride) * theirs.filled(),
                            static_cast<const std::byte*>(from.base + before), into.base + before);
    }
  }
  /// Downloads a slot's partials of each micro-batch with samples, to its place among those of all replicas.
  void download(int slot, const step_context& step, double* into) const {
    const block_address& from = stage_.at(slot).partials;
    const std::size_t before = from.stride * index(step.first_micro_batch);
    stage_.context().download(static_cast<std::ptrdiff_t>(from.stride) * step.filled(), from.base + before,
                              reinterpret_cast<std::byte*>(into) + before);
  }

  /// Moves the layers' state by the partials of the mini-batch. Cannot fail.
  GPIPE_OUT_OF_LINE void absorb(const step_context& step) noexcept {
    for (std::size_t i = 0; i < stage_.slots().size(); ++i) {
      const auto& b = stage_.slots()[i];
      if (b.kernels->absorb == nullptr) continue;
      call c = call_of_all(b, step, plan_.options.micro_batch_size);
      if (!earlier_.empty() && earlier_[i].count() > 0) {
        earlier_[i].append(stage_.context(), c.partials, c.partial_stride, c.micro_batches);
        c.partials = earlier_[i].all();
        c.micro_batches = earlier_[i].count();
      }
      b.kernels->absorb(stage_.context(), c);
    }
  }
  /// Keeps the partials of an accumulated call for the commit; may allocate.
  GPIPE_COLD void keep(const step_context& step) {
    for (std::size_t i = 0; i < earlier_.size(); ++i)
      if (const auto& b = stage_.slots()[i]; b.kernels->absorb != nullptr) {
        const call c = call_of_all(b, step, plan_.options.micro_batch_size);
        earlier_[i].keep(stage_.context(), c.partials, c.partial_stride, c.micro_batches, plan_.all_micro_batches());
      }
  }
  /// Drops the partials of accumulated calls.
  void clear() noexcept {
    for (auto& kept : earlier_) kept.clear();
  }

 private:
  const runtime_plan& plan_;
  const stage_arena<Device>& stage_;
  std::vector<accumulated_statistics<Device>> earlier_;  // [slot]; empty: no layer has state
};

}  // namespace gpipe::detail
