#include <gpipe/record/checkpoint/json_reader.hpp>

#include <doctest/doctest.h>

#include <string>

#include "support/checkpoints.hpp"

using namespace gpipe;
using namespace checkpoints;

namespace {

const std::string file = "f";

std::string string_of(const std::string& text) {
  std::string result;
  detail::json_reader json(text, "the text", file);
  json.string(result);
  json.end();
  return result;
}

}  // namespace

TEST_CASE("strings and their escapes") {
  CHECK(string_of(R"( "a\"\\\/\b\f\n\r\tz" )") == "a\"\\/\b\f\n\r\tz");
  CHECK(string_of(R"("\u0041\u00e4\u20AC\uD83D\uDE00")") == "A\u00e4\u20ac\U0001F600");
  std::string every;
  for (int c = 1; c < 128; ++c) every += static_cast<char>(c);
  every += "\u00e4\u20ac\U0001F600";
  std::string text;
  detail::append_json(text, every);
  CHECK(string_of(text) == every);
}

TEST_CASE("any value is read as its text") {
  const std::string text = R"({"a": "x\"y" , "b": [1, {"c": null}],"d":-1.5e-05 , "e":true})";
  gpipe::detail::json_reader json(text, "the text", file);
  std::string all;
  json.object([&](const std::string& key) { all += key + '=' + json.value() + ';'; });
  json.end();
  CHECK(all == R"(a="x\"y";b=[1, {"c": null}];d=-1.5e-05;e=true;)");
}

TEST_CASE("values that are skipped are JSON, too") {
  for (const char* text : {"0", "-0", "1.5", "-12e+3", "1E-400", "true", "false", "null", "\"\"", "[]", "{}",
                           R"([1,{"a":[null]},"b"])", R"({"a":[1,-2.5,{"b":"c\"d"}],"e":[]})", " [ 1 , 2 ] "}) {
    CAPTURE(text);
    CHECK(is_json(text));
  }
  for (const char* text :
       {"",         "-",    "01",     "1.",   ".5",    "1e",        "+1",  "tru",  "True",  "nul",
        "'a'",      "[1,]", "[1 2]",  "[",    "{1:2}", "{\"a\" 1}", "1 2", "NaN",  "1e400", "\"\\u12\"",
        "\"\x01\"", "{",    "\"\n\"", "[01]", "[1.]",  "[.5]",      "{}x", "[\"a]"}) {
    CAPTURE(text);
    CHECK_FALSE(is_json(text));
  }
  CHECK(is_json(std::string(127, '[') + std::string(127, ']')));
  CHECK_FALSE(is_json(std::string(128, '[') + std::string(128, ']')));
  CHECK_FALSE(is_json(std::string(1'000'000, '[')));
}

TEST_CASE("an error names what was read, the byte and the file") {
  const std::string text = "{\"a\":x}";
  CHECK(complaint([&] {
          detail::json_reader json(text, "the index", file);
          json.object([&](const std::string&) { json.number(); });
        }) == "f: the index, byte 5: a whole number that is not negative is missing; write the file anew");
}
