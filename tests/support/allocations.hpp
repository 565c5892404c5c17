#pragma once

#include <atomic>
#include <cstdlib>
#include <new>

// Counts what the program allocates by operator new, in all its threads. Included by one file of a program.
// Not under clang's thread sanitizer, whose own cannot be replaced: there it counts none.

inline std::atomic<long> allocations{0};

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define TESTS_COUNT_NONE
#endif
#endif
#ifndef TESTS_COUNT_NONE
void* operator new(std::size_t size) {
  ++allocations;
  if (void* p = std::malloc(size)) return p;
  throw std::bad_alloc();
}
// Inlined, a call of free would stand where a compiler sees the pair's new, and warns that they do not match.
[[gnu::noinline]] void operator delete(void* p) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, std::size_t) noexcept { std::free(p); }
#endif
