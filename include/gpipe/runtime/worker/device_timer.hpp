#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <gpipe/core/index.hpp>
#include <gpipe/device/contract/device_concept.hpp>
#include <gpipe/plan/schedule/contract/action.hpp>

namespace gpipe::detail {

/// When the actions of a worker ran on its device: recorded while they are enqueued, and read when all have finished.
/// For a device without moments it does nothing, because there an action ends when its call returns.
template <class Device>
struct device_timer {
  using context = typename Device::context;
  static constexpr bool on() { return false; }
  static void open(bool, std::size_t, int) {}
  static void begin(const context&) {}
  static void end(const context&, const instruction&) {}
  static void over(const context&, int) {}
  template <class F>
  static void each(std::int64_t, F&&) {}
};

template <timing_device Device>
class device_timer<Device> {
 public:
  using context = typename Device::context;

  bool on() const { return on_; }

  /// A pass of this number of actions begins; `on`: its times are recorded. The first such pass allocates.
  void open(bool on, std::size_t actions, int stages) {
    on_ = on;
    size_ = 0;
    if (!on_) return;
    if (times_.size() < actions) times_ = std::vector<action_times>(actions);
    if (over_.empty()) over_ = std::vector<moment>(detail::index(stages));
  }

  /// The next action begins. A second call moves its begin, if work in between was not part of it.
  void begin(const context& c) {
    if (on_) c.note(times_[size_].begin);
  }
  void end(const context& c, const instruction& what) {
    if (!on_) return;
    c.note(times_[size_].end);
    times_[size_++].what = what;
  }
  /// Recorded behind all work of the stage.
  void over(const context& c, int stage) {
    if (on_) c.note(over_[detail::index(stage)]);
  }

  /// Calls f(instruction, begin_ns, end_ns) for each action in order; `over_ns` is when the host saw the end of all
  /// work. The device's clock differs from the host's, so a moment is placed by its distance from that end.
  template <class F>
  void each(std::int64_t over_ns, F&& f) const {
    for (std::size_t i = 0; i < size_; ++i) {
      const action_times& it = times_[i];
      const moment& over = over_[detail::index(it.what.stage)];
      f(it.what, over_ns - it.begin.ns_until(over), over_ns - it.end.ns_until(over));
    }
  }

 private:
  using moment = typename Device::moment;
  struct action_times {
    instruction what;
    moment begin, end;
  };

  std::vector<action_times> times_;
  std::vector<moment> over_;
  std::size_t size_ = 0;
  bool on_ = false;
};

}  // namespace gpipe::detail
