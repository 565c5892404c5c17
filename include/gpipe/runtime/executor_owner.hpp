#pragma once

#include <memory>

#include <gpipe/core/config.hpp>
#include <gpipe/core/error.hpp>

namespace gpipe {

class executor;

namespace detail {

/// Destroys an executor, or keeps it until the process ends if a kernel in it does not return: that thread still uses
/// the executor's memory.
struct keep_stuck {
  void operator()(executor* run) const;
};

/// Each training has one. A training that was moved from has none, and its calls throw `error`.
class executor_owner : public std::unique_ptr<executor, keep_stuck> {
 public:
  using std::unique_ptr<executor, keep_stuck>::unique_ptr;

  executor& operator*() const {
    if (this->get() == nullptr) throw_moved();
    return *this->get();
  }
  executor* operator->() const { return &**this; }

 private:
  [[noreturn]] GPIPE_COLD static void throw_moved() {
    throw_error({"the training was moved to another object"}, {"use that one"});
  }
};

}  // namespace detail

}  // namespace gpipe
