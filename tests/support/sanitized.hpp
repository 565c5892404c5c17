#pragma once

// Whether a sanitizer looks on: then a law that runs the same code many times, over other cuts or types, runs it less
// often. What no sanitizer can see, such as wrong bits, the other builds look for in every case.

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define TESTS_SANITIZED
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define TESTS_SANITIZED
#endif

namespace laws {

#ifdef TESTS_SANITIZED
inline constexpr bool sanitized = true;
#else
inline constexpr bool sanitized = false;
#endif

/// From one cut, as the bits of a mask, to the next that is tried: no multiple of the number of recompute modes, three.
inline constexpr unsigned cut_step = sanitized ? 7 : 1;

}  // namespace laws
