#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#ifdef __linux__
#include <pthread.h>
#include <sys/resource.h>
#endif

#include <gpipe/core/error.hpp>

// Checks at start that the system gives threads, and large enough stacks. A stack that is too small would end the
// program in the first step, without an error.

namespace gpipe::detail {

/// The stack that kernels need: a block of a matrix product is on it.
inline constexpr std::int64_t needed_stack = 208 * 1024;

inline constexpr std::int64_t unknown_stack = (std::numeric_limits<std::int64_t>::max)();

/// The bytes of stack that the calling thread has left.
GPIPE_COLD inline std::int64_t stack_left() {
  std::int64_t left = unknown_stack;
#ifdef __GLIBC__
  pthread_attr_t attributes;
  if (pthread_getattr_np(pthread_self(), &attributes) != 0) return left;
  void* lowest = nullptr;
  std::size_t size = 0;
  if (pthread_attr_getstack(&attributes, &lowest, &size) == 0) {
    const auto begin = reinterpret_cast<std::uintptr_t>(lowest),
               current = reinterpret_cast<std::uintptr_t>(&attributes);
    if (current >= begin && current - begin <= size)
      left = static_cast<std::int64_t>(current - begin);  // otherwise on a fiber's stack
  }
  pthread_attr_destroy(&attributes);
#endif
  return left;
}

/// The bytes of stack that a new thread gets.
GPIPE_COLD inline std::int64_t stack_of_new_thread() {
#ifdef __linux__
  pthread_attr_t attributes;
  std::size_t size = 0;
  if (pthread_attr_init(&attributes) != 0) return unknown_stack;
  const bool known = pthread_attr_getstacksize(&attributes, &size) == 0;
  pthread_attr_destroy(&attributes);
  if (known) return static_cast<std::int64_t>(size);
#endif
  return unknown_stack;
}

/// Throws if the calling thread, or a new one if there will be any, has too little stack for kernels.
GPIPE_COLD inline void require_stack(bool starts_threads) {
  const std::int64_t left = stack_left();
  if (left < needed_stack)
    throw_error({"the calling thread has ", left, " bytes of stack left, and kernels need ", needed_stack},
                {"raise the limit (ulimit -s), or call from a thread with a larger stack"});
  if (!starts_threads) return;
  if (const std::int64_t size = stack_of_new_thread(); size < needed_stack)
    throw_error({"a new thread has ", size, " bytes of stack, and kernels need ", needed_stack},
                {"raise the limit (ulimit -s, or pthread_setattr_default_np)"});
}

/// Starts a thread; the error names its purpose.
GPIPE_COLD inline std::thread start_thread(std::string_view purpose, std::function<void()> body) {
  try {
    return std::thread(std::move(body));
  } catch (const std::system_error& cause) {
    throw_error({"the system starts no thread for ", purpose, ": ", cause.what()},
                {"raise the limits of threads (ulimit -u) and of addresses (ulimit -v; each thread takes ulimit -s)"});
  }
}

}  // namespace gpipe::detail
