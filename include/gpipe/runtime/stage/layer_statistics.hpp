#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gpipe/core/config.hpp>
#include <gpipe/core/numbers/double_bits.hpp>
#include <gpipe/plan/step_plan.hpp>
#include <gpipe/runtime/binding/binding.hpp>
#include <gpipe/runtime/hooks/nonfinite_finder.hpp>
#include <gpipe/runtime/stage/stage_arena.hpp>

namespace gpipe::detail {

/// The partials that a layer with state has computed in accumulated calls. Its state moves once, at the commit, by the
/// partials of the whole mini-batch. They stay in the device's memory.
class accumulated_statistics {
 public:
  /// Keeps the partials of a call: `count` micro-batches, `stride` numbers apart. Makes room for `max_count` more,
  /// because the commit must not fail.
  GPIPE_COLD void keep(const device_context& c, const double* partials, std::ptrdiff_t stride, int count,
                       int max_count) {
    const auto needed = static_cast<std::size_t>(numbers_ + stride * (count + max_count)) * sizeof(double);
    if (!room_ || room_->size() < needed) {
      // Twice the size, so that a long series of calls copies its partials only a few times.
      std::unique_ptr<arena> larger(new arena(c, 2 * needed, std::byte{0}));
      if (numbers_ > 0) c.copy(numbers_, static_cast<const double*>(all()), doubles(*larger));
      c.finish();  // before the old arena is freed
      room_ = std::move(larger);
    }
    followed_by(c, partials, stride, count);
    numbers_ += stride * count;
    count_ += count;
  }
  /// All partials: the kept ones, followed by the last call's, which are not kept.
  double* followed_by(const device_context& c, const double* partials, std::ptrdiff_t stride, int count) {
    c.copy(stride * count, partials, all() + numbers_);
    return all();
  }
  void clear() noexcept { numbers_ = 0, count_ = 0; }

  int count() const { return count_; }
  double* all() { return doubles(*room_); }

 private:
  using arena = device_arena;
  static double* doubles(const arena& room) { return reinterpret_cast<double*>(room.data()); }

  std::unique_ptr<arena> room_;
  std::ptrdiff_t numbers_ = 0;
  int count_ = 0;
};

/// The partials that the layers of a stage compute for each micro-batch, such as batch statistics and the loss, and the
/// layers' state, which changes by them at the commit.
class layer_statistics {
 public:
  /// `longest`: the statistics of the same stage for the longest length, which share the kept partials; null: none.
  layer_statistics(const step_plan& plan, const stage_arena& stage, const layer_statistics* longest = nullptr)
      : plan_(plan),
        stage_(stage),
        earlier_(longest != nullptr ? longest->earlier_ : std::make_shared<kept_partials>()) {}

  /// Makes room for the partials of accumulated calls, once the stage is bound.
  GPIPE_COLD void reserve() {
    for (const auto& b : stage_.layers())
      if (b.kernels->update_state != nullptr) earlier_->resize(stage_.layers().size());
  }

  /// Calls `f(block)` for the partials of each layer that has some.
  template <class Call>
  void each(Call&& f) const {
    for (const auto& b : stage_.layers())
      if (b.partials.base != nullptr) f(b.partials);
  }
  /// Copies the partials that the same stage of another replica computed in the step `peer_step`.
  GPIPE_OUT_OF_LINE void copy_from(const layer_statistics& peer, const step_context& peer_step) const {
    for (std::size_t i = 0; i < stage_.layers().size(); ++i) {
      const block_address &source = peer.stage_.layers()[i].partials, &target = stage_.layers()[i].partials;
      if (source.base == nullptr) continue;
      const std::size_t before = source.stride * index(peer_step.first_micro_batch);
      stage_.context().copy(static_cast<std::ptrdiff_t>(source.stride) * peer_step.filled(),
                            static_cast<const std::byte*>(source.base + before), target.base + before);
    }
  }
  /// Downloads a layer's partials of each micro-batch with samples, to their place among the partials of all replicas.
  void download(int layer, const step_context& step, double* target) const {
    const block_address& block = stage_.at(layer).partials;
    const std::size_t before = block.stride * index(step.first_micro_batch);
    stage_.context().download(static_cast<std::ptrdiff_t>(block.stride) * step.filled(), block.base + before,
                              reinterpret_cast<std::byte*>(target) + before);
  }

  bool has_state() const { return !earlier_->empty(); }

  /// Before the decision: makes the layers' next state from the partials of the mini-batch. If a number of it is not
  /// finite, the layer's sum of squares is not, so that the step is refused; a diagnosis throws, and names the layer.
  GPIPE_OUT_OF_LINE void update_state(const step_context& step) {
    const auto& device = stage_.context();
    for (std::size_t i = 0; i < earlier_->size(); ++i) {
      const auto& b = stage_.layers()[i];
      accumulated_statistics& earlier = (*earlier_)[i];
      if (b.kernels->update_state == nullptr) continue;
      call c = call_of_all(b, step, plan_.options.micro_batch_size);
      if (earlier.count() > 0) {
        c.partials = earlier.followed_by(device, c.partials, c.partial_stride, c.micro_batches);
        c.micro_batches += earlier.count();
      }
      device.copy(bytes_of_state(b), static_cast<const std::byte*>(b.state), b.next_state);
      c.state = b.next_state;
      b.kernels->update_state(device.handle(), c);
      check_finite(b, step);
    }
  }
  /// After the decision: the next state becomes the state. Cannot fail.
  GPIPE_OUT_OF_LINE void commit() noexcept {
    for (const auto& b : stage_.layers())
      if (b.kernels->update_state != nullptr)
        stage_.context().copy(bytes_of_state(b), static_cast<const std::byte*>(b.next_state), b.state);
  }
  /// Keeps the partials of an accumulated call for the commit; may allocate.
  GPIPE_COLD void keep(const step_context& step) {
    for (std::size_t i = 0; i < earlier_->size(); ++i)
      if (const auto& b = stage_.layers()[i]; b.kernels->update_state != nullptr) {
        const call c = call_of_all(b, step, plan_.options.micro_batch_size);
        (*earlier_)[i].keep(stage_.context(), c.partials, c.partial_stride, c.micro_batches, plan_.all_micro_batches());
      }
  }
  /// Drops the partials of accumulated calls.
  void clear() noexcept {
    for (auto& kept : *earlier_) kept.clear();
  }

 private:
  using bound = bound_layer;
  using kept_partials = std::vector<accumulated_statistics>;

  static std::ptrdiff_t bytes_of_state(const bound& b) { return static_cast<std::ptrdiff_t>(b.layer->state_bytes()); }

  void check_finite(const bound& b, const step_context& step) const {
    std::byte* data = b.next_state;
    auto* const sum = reinterpret_cast<double*>(data + b.layer->state_bytes());
    for (int p = 0; p < b.layer->state_count; ++p) {
      const parameter& state = b.layer->state[p];
      const auto n = static_cast<std::ptrdiff_t>(state.extents.size());
      stage_.context().sum_nonfinite(b.layer->type, n, data, sum);
      if (step.diagnoses()) require_finite(b, state, sum);
      stage_.context().add(1, dtype::float64, sum, b.sum_of_squares);
      data += aligned(state.extents.size() * bytes_of(b.layer->type));
    }
  }
  GPIPE_COLD void require_finite(const bound& b, const parameter& state, const double* sum) const {
    double found = 0;
    stage_.context().download(sizeof found, reinterpret_cast<const std::byte*>(sum),
                              reinterpret_cast<std::byte*>(&found));
    stage_.context().finish();
    if (!is_finite(found))
      throw_error({"its state \"", state.name, "\" would not be finite after the step"},
                  {"scale the data, or lower the learning rate; parameters and state are as before the step"},
                  {.layer = std::string(b.layer->name), .layer_index = b.layer_index, .stage = stage_.stage()});
  }

  const step_plan& plan_;
  const stage_arena& stage_;
  std::shared_ptr<kept_partials> earlier_;  // [layer]; empty: no layer has state
};

}  // namespace gpipe::detail
