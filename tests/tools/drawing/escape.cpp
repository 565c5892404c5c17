#include <gpipe/tools/drawing/escape.hpp>

#include <doctest/doctest.h>

using namespace gpipe::detail;

TEST_CASE("reserved characters of a format are escaped") {
  CHECK(json("a\"b\\c\n\x01z") == "\"a\\\"b\\\\c\\u000a\\u0001z\"");
  CHECK(xml("a<b> & \"c\"\n") == "a&lt;b&gt; &amp; &quot;c&quot; ");
}
