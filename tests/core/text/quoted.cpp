// compiled: alone
#include <gpipe/core/text/quoted.hpp>

#include <doctest/doctest.h>

#include <string>

using gpipe::detail::quoted;

TEST_CASE("a short text stands in quotes, with control characters escaped") {
  CHECK(quoted("abc") == "\"abc\"");
  CHECK(quoted("") == "\"\"");
  CHECK(quoted("a\nb\tc\r") == "\"a\\nb\\tc\\r\"");
  CHECK(quoted(std::string_view("\0\x1b[2J\x7f", 6)) == "\"\\x00\\x1b[2J\\x7f\"");
  CHECK(quoted("gr\xc3\xbc\xc3\x9f") == "\"gr\xc3\xbc\xc3\x9f\"");
}

TEST_CASE("a long text is cut at 80 characters, and never within a character") {
  CHECK(quoted(std::string(80, 'x')) == '"' + std::string(80, 'x') + '"');
  CHECK(quoted(std::string(81, 'x')) == '"' + std::string(77, 'x') + "...\"");
  CHECK(quoted(std::string(100'000, '\n')).size() <= 82);
  std::string accents;
  for (int i = 0; i < 60; ++i) accents += "\xc3\xbc";
  const std::string cut = quoted('a' + accents);
  CHECK(cut == "\"a" + accents.substr(0, 76) + "...\"");
}
