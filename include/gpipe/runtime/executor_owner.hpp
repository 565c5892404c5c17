#pragma once

#include <memory>

#include <gpipe/core/config.hpp>
#include <gpipe/core/error.hpp>

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

/// A training has it. A training that was moved from has none, and what it is asked throws `error`.
template <class Device>
class executor_owner : public std::unique_ptr<executor<Device>, keep_stuck> {
 public:
  using std::unique_ptr<executor<Device>, keep_stuck>::unique_ptr;

  executor<Device>& operator*() const {
    if (this->get() == nullptr) throw_moved();
    return *this->get();
  }
  executor<Device>* operator->() const { return &**this; }

 private:
  [[noreturn]] GPIPE_COLD static void throw_moved() {
    throw_error({"the training was moved to another object"}, {"use that one"});
  }
};

}  // namespace detail

}  // namespace gpipe
