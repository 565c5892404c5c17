// compiled: alone
// sanitizers: none

#include <gpipe/core/config.hpp>

#include <doctest/doctest.h>

#include <string_view>
#include <type_traits>
#include <vector>

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

TEST_CASE("an int indexes a vector without a warning") {
  static_assert(std::is_same_v<decltype(gpipe::detail::index(3)), std::size_t>);
  const std::vector<int> numbers{4, 5, 6};
  CHECK(numbers[gpipe::detail::index(2)] == 6);
}
