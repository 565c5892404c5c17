// compiled: alone
#if GPIPE_WITH_LIBXSMM
#include <gpipe/device/host/gemm/libxsmm_kernels.hpp>
#endif

#include <doctest/doctest.h>

#include <string>

#include "support/sanitized.hpp"

// The look-up runs in gemm_tile.cpp, with thousands of threads. This program has not called libxsmm before.

// Sanitizers need more addresses than the limit leaves.
#if GPIPE_WITH_LIBXSMM && defined(__linux__) && !defined(TESTS_SANITIZED)

#include <sys/resource.h>

using gpipe::host::libxsmm_kernels;

TEST_CASE("too few addresses for libxsmm's tables: an error, and it works when there are more") {
  const libxsmm_kernels::shape of{32, 32, 32, 32, 32, false, false};
  rlimit before{};
  REQUIRE(getrlimit(RLIMIT_AS, &before) == 0);
  rlimit low = before;
  low.rlim_cur = rlim_t{1} << 40;
  REQUIRE(setrlimit(RLIMIT_AS, &low) == 0);
  low.rlim_cur -= static_cast<rlim_t>(gpipe::detail::address_space_left());
  low.rlim_cur += rlim_t{6} << 20;  // libxsmm maps 10.4 MiB
  REQUIRE(setrlimit(RLIMIT_AS, &low) == 0);
  std::string found;
  try {
    libxsmm_kernels::find(of);
  } catch (const gpipe::error& failure) {
    found = failure.what();
  }
  REQUIRE(setrlimit(RLIMIT_AS, &before) == 0);
  CAPTURE(found);
  CHECK(found.find("the address space has ") == 0);
  CHECK(found.find(" bytes left, and libxsmm needs 16777216 for its tables and code; raise the limit of addresses") !=
        std::string::npos);
  CHECK(static_cast<bool>(libxsmm_kernels::find(of)));
}

#endif
