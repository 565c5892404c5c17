// sanitizers: address

#include <gpipe/core/text/parse_number.hpp>

#include <doctest/doctest.h>

#include <bit>
#include <charconv>
#include <clocale>
#include <cstdint>
#include <string>
#include <system_error>
#include <type_traits>

#include <gpipe/core/numbers/random.hpp>

using namespace gpipe;
using namespace gpipe::detail;

namespace {

/// The C library and `std::from_chars` find the same number, the same end and the same error.
template <class T>
void require_same(const std::string& text) {
  T expected = -1, found = -1;
  const char *first = text.data(), *last = first + text.size();
  const auto by_standard = parse_number(first, last, expected);
  const auto by_strtod = parse_by_strtod(first, last, found);
  using word = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;
  INFO(text, ": ", static_cast<double>(found), " instead of ", static_cast<double>(expected));
  CHECK(by_strtod.ptr - first == by_standard.ptr - first);
  CHECK(by_strtod.ec == by_standard.ec);
  if (expected == expected) CHECK(std::bit_cast<word>(found) == std::bit_cast<word>(expected));
  else CHECK(found != found);
}

constexpr const char* words[] = {"",
                                 "-",
                                 "+1",
                                 " 1",
                                 "1",
                                 "-0",
                                 "0",
                                 ".5",
                                 "-.5",
                                 "5.",
                                 ".",
                                 "-.",
                                 "1.5",
                                 "1,5",
                                 "1.5.5",
                                 "1e5",
                                 "1e",
                                 "1e+",
                                 "1E-5x",
                                 "e5",
                                 "0x10",
                                 "1f",
                                 "inf",
                                 "-INF",
                                 "Infinity",
                                 "infinit",
                                 "nan",
                                 "-NaN",
                                 "nan(12)",
                                 "nan(",
                                 "nan(;)",
                                 "in",
                                 "na",
                                 "1e400",
                                 "-1e400",
                                 "1e-400",
                                 "-1e-400",
                                 "0e999",
                                 "0.000e-999",
                                 "4.9e-324",
                                 "2e-324",
                                 "1e-45",
                                 "1e-46",
                                 "3.4028236e38",
                                 "1.7976931348623157e308",
                                 "1.7976931348623159e308",
                                 "9007199254740993",
                                 "0.1",
                                 "1e23",
                                 "8.5",
                                 "123456789012345678901234567890"};

}  // namespace

TEST_CASE("numbers are read as std::from_chars reads them") {
  for (const char* text : words) {
    require_same<double>(text);
    require_same<float>(text);
  }
  for (std::uint32_t i = 0; i < 2000; ++i) {
    const auto drawn = draw({}, i, 0);
    const double wide = std::bit_cast<double>(std::uint64_t{drawn.word[0]} << 32 | drawn.word[1]);
    const float narrow = std::bit_cast<float>(drawn.word[2]);
    char digits[64];
    require_same<double>(std::string(digits, std::to_chars(digits, digits + 64, wide).ptr));
    require_same<float>(std::string(digits, std::to_chars(digits, digits + 64, narrow).ptr));
    require_same<float>(std::string(digits, std::to_chars(digits, digits + 64, wide).ptr));
  }
}

TEST_CASE("the decimal point is the same in every locale") {
  const std::string before = std::setlocale(LC_NUMERIC, nullptr);
  bool installed = false;
  for (const char* name : {"de_DE.UTF-8", "fr_FR.UTF-8", "de_DE"}) {
    if (std::setlocale(LC_NUMERIC, name) == nullptr) continue;
    installed = true;
    require_same<double>("1.5");
  }
  std::setlocale(LC_NUMERIC, before.c_str());
  if (!installed) MESSAGE("skipped: no locale with another decimal point is installed");
}
