#pragma once

#include <cstddef>
#include <span>

// The sanitizer that this test is built with. Under a sanitizer a law that runs the same code many times, over other
// cuts or types, runs it less often. Builds without one run every case, in every check.

#if defined(__SANITIZE_ADDRESS__)
#define TESTS_SANITIZED
#endif
#if defined(__SANITIZE_THREAD__)
#define TESTS_THREAD_SANITIZED
#endif
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define TESTS_SANITIZED
#endif
#if __has_feature(thread_sanitizer)
#define TESTS_THREAD_SANITIZED
#endif
#endif
#ifdef TESTS_THREAD_SANITIZED
#define TESTS_SANITIZED
#endif

namespace laws {

#ifdef TESTS_SANITIZED
inline constexpr bool sanitized = true;
#else
inline constexpr bool sanitized = false;
#endif

/// The thread sanitizer looks for races, which depend on schedules, stages and workers, and hardly on what is computed.
#ifdef TESTS_THREAD_SANITIZED
inline constexpr bool thread_sanitized = true;
#else
inline constexpr bool thread_sanitized = false;
#endif

/// All of `choices`; under a sanitizer the one whose turn it is. What it finds depends on kernels, schedules, stages
/// and workers: a law runs each of those, but takes turns in the rest.
template <class T, std::size_t N>
std::span<const T> in_turn(const T (&choices)[N], int turn) {
  return sanitized ? std::span<const T>(choices).subspan(static_cast<std::size_t>(turn) % N, 1) : choices;
}

/// True for two of three turns under a sanitizer: the law leaves this case out.
constexpr bool left_out(int turn) { return sanitized && turn % 3 != 0; }

/// The step from one tested cut, as a bit mask, to the next: no multiple of the number of recompute modes, three.
inline constexpr unsigned cut_step = sanitized ? 29 : 1;

}  // namespace laws
