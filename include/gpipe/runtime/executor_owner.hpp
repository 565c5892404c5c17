#pragma once

#include <memory>

namespace gpipe {

template <class Device>
class executor;

namespace detail {

/// Destroys an executor, or keeps it until the process ends if a kernel in it does not return: that thread still uses
/// the executor's memory.
struct keep_stuck {
  template <class Device>
  void operator()(executor<Device>* it) const {
    if (!it->stuck()) delete it;
  }
};

template <class Device>
using executor_owner = std::unique_ptr<executor<Device>, keep_stuck>;

}  // namespace detail

}  // namespace gpipe
