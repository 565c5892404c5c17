// compiled: alone
// sanitizers: none

#include <gpipe/core/build_mode.hpp>

#include <doctest/doctest.h>

#include <string_view>

// consumers/by_path links sources of different modes, and expects the linker's message.

#define TEXT_OF(x) #x
#define EXPANDED(x) TEXT_OF(x)

TEST_CASE("a program instantiates nothing for others, and has bodies in the header-only mode alone") {
  CHECK(GPIPE_COMPILED_SOURCE == 0);
  CHECK(std::string_view(EXPANDED(GPIPE_INLINE)) == (GPIPE_COMPILED ? "" : "inline"));
}

#if defined(__ELF__)
TEST_CASE("the symbol of both modes is an alias of the symbol of this mode") {
#if GPIPE_COMPILED
  CHECK(&gpipe_is_header_only_in_one_source_and_compiled_in_another == &gpipe_mode_compiled);
  CHECK(gpipe_mode_compiled != nullptr);  // the library's
#else
  CHECK(&gpipe_is_header_only_in_one_source_and_compiled_in_another == &gpipe_mode_header_only);
#endif
}
#endif
