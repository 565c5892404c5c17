// compiled: alone
#include <gpipe/device/contract/address_space.hpp>

#include <doctest/doctest.h>

#include <vector>

#include "support/sanitized.hpp"

using gpipe::detail::address_space_left;

// Sanitizers need more addresses than the limit leaves.
#if defined(__linux__) && !defined(TESTS_SANITIZED)
TEST_CASE("what is left is the limit less what is mapped") {
  rlimit before{};
  REQUIRE(getrlimit(RLIMIT_AS, &before) == 0);
  rlimit low = before;
  low.rlim_cur = rlim_t{1} << 40;
  REQUIRE(setrlimit(RLIMIT_AS, &low) == 0);
  const std::int64_t left = address_space_left();
  std::int64_t then = 0;
  {
    std::vector<char> more(64 << 20);
    char* volatile kept = more.data();  // else the compiler may leave the allocation out
    *kept = 1;
    then = address_space_left();
  }
  low.rlim_cur -= static_cast<rlim_t>(left);
  REQUIRE(setrlimit(RLIMIT_AS, &low) == 0);
  const std::int64_t none = address_space_left();
  REQUIRE(setrlimit(RLIMIT_AS, &before) == 0);
  CHECK(left - then >= 64 << 20);
  CHECK(left - then < 72 << 20);
  CHECK(none < 8 << 20);
}
#endif

TEST_CASE("no limit leaves as much as a number holds") { CHECK(address_space_left() > 0); }
