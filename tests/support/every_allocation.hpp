#pragma once

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdlib>

#include "support/sanitized.hpp"

// Counts every allocation of this program, on every thread, also those of malloc. Only one file of a program may
// include it. LAWS_COUNTED is defined where it counts: with glibc and without a sanitizer.

#if defined(__GLIBC__) && !defined(TESTS_SANITIZED)
#define LAWS_COUNTED
inline std::atomic<long> allocations{0};

extern "C" {
void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
void* __libc_memalign(std::size_t, std::size_t);

void* malloc(std::size_t bytes) { return ++allocations, __libc_malloc(bytes); }
void* calloc(std::size_t count, std::size_t bytes) { return ++allocations, __libc_calloc(count, bytes); }
void* realloc(void* old, std::size_t bytes) { return ++allocations, __libc_realloc(old, bytes); }
void* aligned_alloc(std::size_t boundary, std::size_t bytes) { return ++allocations, __libc_memalign(boundary, bytes); }
void* memalign(std::size_t boundary, std::size_t bytes) { return ++allocations, __libc_memalign(boundary, bytes); }
int posix_memalign(void** into, std::size_t boundary, std::size_t bytes) {
  ++allocations;
  *into = __libc_memalign(boundary, bytes);
  return *into == nullptr ? ENOMEM : 0;
}
}
#endif
