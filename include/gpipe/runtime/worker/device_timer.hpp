#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <gpipe/core/index.hpp>
#include <gpipe/device/contract/device_functions.hpp>
#include <gpipe/plan/schedule/contract/action.hpp>

namespace gpipe::detail {

/// Measures when the actions of a worker run on its device: moments are recorded while actions are enqueued, and read
/// when all have finished. For a device without moments it does nothing, because there an action ends when its call
/// returns.
class device_timer {
 public:
  explicit device_timer(const device_functions& device) : device_(device.has_moments() ? &device : nullptr) {}
  bool on() const { return on_; }

  /// A pass of this number of actions begins; `enabled`: its times are recorded. The first such pass allocates.
  void open(bool enabled, std::size_t actions, int stages) {
    on_ = enabled && device_ != nullptr;
    size_ = 0;
    if (!on_) return;
    if (actions_.size() < actions) {
      actions_.resize(actions);
      times_ = {device_->make_moments(2 * actions), device_->free_moments};
    }
    if (over_.get() == nullptr) over_ = {device_->make_moments(detail::index(stages)), device_->free_moments};
  }

  /// The next action begins. A second call moves its begin, if work in between was not part of it.
  void begin(const device_context& c) {
    if (on_) c.note(times_.get(), 2 * size_);
  }
  void end(const device_context& c, const instruction& action) {
    if (!on_) return;
    c.note(times_.get(), 2 * size_ + 1);
    actions_[size_++] = action;
  }
  /// Records a moment after all work of the stage.
  void over(const device_context& c, int stage) {
    if (on_) c.note(over_.get(), detail::index(stage));
  }

  /// Calls f(instruction, begin_ns, end_ns) for each action in order; `over_ns` is when the host saw the end of all
  /// work. The device's clock differs from the host's, so a moment is placed by its distance from that end.
  template <class F>
  void each(std::int64_t over_ns, F&& f) const {
    for (std::size_t i = 0; i < size_; ++i) {
      const std::size_t over = detail::index(actions_[i].stage);
      f(actions_[i], over_ns - device_->ns_between(times_.get(), 2 * i, over_.get(), over),
        over_ns - device_->ns_between(times_.get(), 2 * i + 1, over_.get(), over));
    }
  }

 private:
  const device_functions* device_;
  std::vector<instruction> actions_;
  device_object times_, over_;
  std::size_t size_ = 0;
  bool on_ = false;
};

}  // namespace gpipe::detail
