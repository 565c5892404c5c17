#include <gpipe/device/host/arena.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include <sys/resource.h>

#include "support/sanitized.hpp"

using namespace gpipe;

TEST_CASE("an arena is filled, and aligned to a page, a large one to a large page") {
  constexpr std::size_t small = 5000, large = (std::size_t{2} << 20) + 5000;
  for (const auto& [bytes, boundary] : {std::pair{small, 4096}, {large, 2 << 20}}) {
    const host::arena made(bytes, std::byte{0x5a});
    CHECK(made.size() == bytes);
    CHECK(reinterpret_cast<std::uintptr_t>(made.data()) % static_cast<std::uintptr_t>(boundary) == 0);
    CHECK(std::count(made.data(), made.data() + bytes, std::byte{0x5a}) == static_cast<std::ptrdiff_t>(bytes));
  }
}

// A sanitizer maps more addresses than this limit.
#if !defined(TESTS_SANITIZED) && !defined(TESTS_THREAD_SANITIZED)
TEST_CASE("the memory left is at most the address space left") {
  rlimit before{};
  REQUIRE(getrlimit(RLIMIT_AS, &before) == 0);
  rlimit low = before;
  low.rlim_cur = rlim_t{1} << 30;
  REQUIRE(setrlimit(RLIMIT_AS, &low) == 0);
  const std::int64_t left = host::memory_left();
  CHECK(left > 0);
  CHECK(left < std::int64_t{1} << 30);
  REQUIRE(setrlimit(RLIMIT_AS, &before) == 0);
  CHECK(host::memory_left() >= left);
}
#endif

// Sanitizers end a program with such a large allocation.
#ifndef TESTS_SANITIZED
TEST_CASE("a failed allocation of an arena throws an error with its size") {
  try {
    const host::arena impossible(std::size_t{1} << 62);
    FAIL("it was given");
  } catch (const error& failure) {
    CHECK(std::string(failure.what()).find("4611686018427387904 bytes") != std::string::npos);
  }
}
#endif
