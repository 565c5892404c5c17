#pragma once

#include <cfenv>

namespace gpipe::detail {

/// During its lifetime, its thread has the floating-point environment of a program's start: rounding to nearest,
/// numbers below the smallest normal one kept, no traps. The destructor restores the thread's settings. Otherwise a
/// caller that flushes such numbers to zero, or rounds differently, would do so on its own thread and not on the
/// threads of other workers, so that the number of stages would change the result.
class default_float_environment {
 public:
  default_float_environment() noexcept {
    std::fegetenv(&before_);
    std::fesetenv(FE_DFL_ENV);
  }
  ~default_float_environment() { std::fesetenv(&before_); }
  default_float_environment(const default_float_environment&) = delete;
  default_float_environment& operator=(const default_float_environment&) = delete;

 private:
  std::fenv_t before_;
};

}  // namespace gpipe::detail
