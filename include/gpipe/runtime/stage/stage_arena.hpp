#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include <gpipe/core/config.hpp>
#include <gpipe/device/contract/device_functions.hpp>
#include <gpipe/plan/memory/array_location.hpp>
#include <gpipe/plan/memory/memory_kind.hpp>
#include <gpipe/plan/memory/shares.hpp>
#include <gpipe/plan/stages/stage_view.hpp>
#include <gpipe/plan/step_plan.hpp>
#include <gpipe/runtime/binding/binding.hpp>
#include <gpipe/runtime/binding/optimizer_update.hpp>

namespace gpipe::detail {

/// One stage's memory on its device, and the address of every buffer in it. Parameters, gradients and each moment are
/// one flat array each. A stage of a shorter length (see `lengths`) uses the memory of the longest length's stage.
class stage_arena {
 public:
  stage_arena(const device_functions& device, const network& net, const step_plan& plan, int stage, std::byte fill,
              int replica, const stage_arena* longest = nullptr);
  ~stage_arena() { settle(); }
  stage_arena(const stage_arena&) = delete;
  stage_arena& operator=(const stage_arena&) = delete;

  /// Waits until the device has nothing to do for this stage, and ignores failures.
  void settle() const noexcept;

  int stage() const { return stage_; }
  const stage_memory& memory() const { return memory_; }
  const detail::arena_map& map() const { return map_; }
  const auto& arena() const { return arena_; }
  const device_context& context() const { return context_; }
  const std::vector<detail::bound_layer>& layers() const { return binding_.layers; }
  const detail::bound_layer& at(int layer) const {
    return binding_.layers[detail::index(layer - binding_.layers.front().layer_index)];
  }

  /// The part of the stage that this replica updates: all of it, if replicas keep no shares.
  const stage_share& share() const { return share_; }
  bool is_shared_out() const { return shares() > 1; }
  bool gradients_leave() const { return plan_->requirements(stage_).gradients_leave; }
  /// The layers whose gradients this replica has summed over all.
  layer_range reported(bool commits) const;

  // assumes: one parameter type
  /// The stage's parameters and gradients, each one flat array of `flat_bytes`; moments and averages are of the share.
  std::size_t flat_bytes() const { return static_cast<std::size_t>(memory_.of(memory_kind::parameters)); }
  std::byte* parameters() const { return arena_.data(); }
  std::byte* gradients() const { return begin_of(memory_kind::gradients); }
  std::byte* moments(int i) const { return begin_of(memory_kind::moments) + memory_.share * i; }
  std::byte* averages() const { return begin_of(memory_kind::averages); }

  /// The groups of the parameters. `groups` outlives the stage.
  void begin_updates(const parameter_groups& groups);
  /// Sets the first values of the optimizer state.
  void begin_moments(const optimizer_update& rule);
  /// The ranges that this replica updates in a step: all parameters of its share that are not frozen.
  const std::vector<update_range>& ranges() const { return ranges_; }

  /// average <- average + share (parameter - average). The averages begin as a copy.
  void move_averages(double share);
  void copy_to_averages();
  GPIPE_COLD void exchange_averages() { context_.exchange(share_.bytes, updated_parameters(), averages()); }

  /// Calls `f(begin, bytes)` for each range of the arena with gradients: one range, and with `tied` one per tied use.
  template <class Call>
  void each_gradient(bool tied, Call&& f) const {
    f(flat_bytes(), flat_bytes());
    for (const auto& b : binding_.layers)
      if (tied && !net_->owns(b.layer_index))
        f(static_cast<std::size_t>(b.tied.gradients - arena_.data()), b.tied.bytes);
  }
  // assumes: half precision is bf16
  /// Adds elementwise. Each sum of two numbers is rounded.
  void add(dtype type, std::ptrdiff_t n, const std::byte* source, std::byte* target) const {
    context_.add(n, type, source, target);
  }

  /// Sets gradients to zero, before the first micro-batch adds to them.
  void clear_gradients() {
    context_.fill(memory_.of(memory_kind::gradients), std::byte{0}, gradients());
    for (const auto& b : binding_.layers)
      if (!net_->owns(b.layer_index))
        context_.fill(static_cast<std::ptrdiff_t>(b.tied.bytes), std::byte{0}, b.tied.gradients);
  }

  /// Clears the gradients of a bucket that has left, because another one needs its window.
  void clear_gradients(const bucket& b) {
    context_.fill(static_cast<std::ptrdiff_t>(b.bytes), std::byte{0}, at(b.first).owned.gradients);
  }

  /// Sums the squares of the gradient of every layer that is reported. If the pass commits, tied gradients count at
  /// their owner only.
  void sum_squares(bool commits);
  /// Downloads the sums to `squares[layer]`.
  void download_squares(bool commits, double* squares) const;

 protected:
  static stage_share own_share(const stage_view& stage, int shares, int replica);
  int shares() const { return plan_->requirements(stage_).shares; }
  std::byte* begin_of(memory_kind kind) const { return arena_.data() + memory_.before(static_cast<int>(kind)); }
  std::byte* updated_parameters() const { return parameters() + share_.begin; }

  using bound = detail::bound_layer;

  // change: memory pages
  /// The context and the memory, which the stages of several lengths share.
  struct place {
    device_context context;
    device_arena arena;
    place(const device_functions& device, int number, std::size_t bytes, std::byte fill)
        : context(device, number), arena(context, bytes, fill) {}
  };

  void find_frozen(bound& b);
  // A range ends where the group changes or a frozen parameter begins. A tensor rule has a range for each tensor.
  void find_ranges();
  // The number of elements of the share.
  std::ptrdiff_t elements() const { return share_.bytes / static_cast<std::ptrdiff_t>(bytes_of(net_->type)); }

  void sum_squares(const bound& b, bool commits);

  const network* net_;
  const step_plan* plan_;
  int stage_, replica_;
  stage_memory memory_;
  stage_share share_;
  std::shared_ptr<place> place_;
  device_context& context_;
  context_handle handle_;  // of the context, as kernels take it
  bool takes_operations_;
  device_arena& arena_;
  detail::arena_map map_;
  detail::binding binding_;
  const parameter_groups* groups_ = nullptr;
  std::vector<update_range> ranges_;
};

}  // namespace gpipe::detail

#if !GPIPE_COMPILED
#include <gpipe/runtime/stage/stage_arena-inl.hpp>
#endif
