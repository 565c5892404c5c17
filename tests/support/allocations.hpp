#pragma once

#include <atomic>
#include <cstdlib>
#include <new>

#include "support/sanitized.hpp"

// Counts the program's allocations by operator new, in all its threads. Only one file of a program may include it. It
// counts none under clang's thread sanitizer, whose operator new cannot be replaced.

inline std::atomic<long> allocations{0};

#if !defined(TESTS_THREAD_SANITIZED) || !defined(__clang__)
// With one of the two inlined, a compiler would see malloc beside delete, or new beside free, and warn about a
// mismatch.
[[gnu::noinline]] void* operator new(std::size_t size) {
  ++allocations;
  if (void* p = std::malloc(size)) return p;
  throw std::bad_alloc();
}
[[gnu::noinline]] void* operator new(std::size_t size, const std::nothrow_t&) noexcept {  // of std::stable_sort
  ++allocations;
  return std::malloc(size);
}
[[gnu::noinline]] void operator delete(void* p) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, std::size_t) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, const std::nothrow_t&) noexcept { std::free(p); }
#endif
