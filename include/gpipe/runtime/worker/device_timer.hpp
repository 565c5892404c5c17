#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <gpipe/device/contract/device_concept.hpp>
#include <gpipe/plan/schedule/action.hpp>

namespace gpipe {

/// When the actions of a worker ran on its device: noted while they are asked for, and told when all of it is over. Of
/// a device without moments nothing is: there an action took as long as the asking.
template <class Device>
struct device_times {
  using context = typename Device::context;
  static constexpr bool on() { return false; }
  static void open(bool, std::size_t, int) {}
  static void begin(const context&) {}
  static void end(const context&, const instruction&) {}
  static void over(const context&, int) {}
  template <class F>
  static void tell(std::int64_t, F&&) {}
};

template <timing_device Device>
class device_times<Device> {
 public:
  using context = typename Device::context;

  bool on() const { return on_; }

  /// Forgets all; and if `noting` has memory for a pass of so many actions over stages below `stages`, which the first
  /// such pass makes.
  void open(bool noting, std::size_t actions, int stages) {
    on_ = noting;
    size_ = 0;
    if (!on_) return;
    if (noted_.size() < actions) noted_ = std::vector<noted>(actions);
    if (over_.empty()) over_ = std::vector<moment>(static_cast<std::size_t>(stages));
  }

  /// The action that comes next begins; or does now, if what came since was not its own.
  void begin(const context& on) {
    if (on_) on.note(noted_[size_].begin);
  }
  void end(const context& on, const instruction& what) {
    if (!on_) return;
    on.note(noted_[size_].end);
    noted_[size_++].what = what;
  }
  /// All that the stage was asked for, and others before it, is over.
  void over(const context& on, int stage) {
    if (on_) on.note(over_[static_cast<std::size_t>(stage)]);
  }

  /// f(instruction, begin_ns, end_ns) for each action in order; `over_ns` is when the host saw that all was over. A
  /// device's clock is not the host's: moments are placed by how long they were before the end that both know.
  template <class F>
  void tell(std::int64_t over_ns, F&& f) const {
    for (std::size_t i = 0; i < size_; ++i) {
      const noted& it = noted_[i];
      const moment& over = over_[static_cast<std::size_t>(it.what.stage)];
      f(it.what, over_ns - it.begin.ns_until(over), over_ns - it.end.ns_until(over));
    }
  }

 private:
  using moment = typename Device::moment;
  struct noted {
    instruction what;
    moment begin, end;
  };

  std::vector<noted> noted_;
  std::vector<moment> over_;
  std::size_t size_ = 0;
  bool on_ = false;
};

}  // namespace gpipe
