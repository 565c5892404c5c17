#include <gpipe/core/text/table.hpp>

#include <doctest/doctest.h>

TEST_CASE("columns are as wide as their widest cell, and rows may be short") {
  CHECK(gpipe::detail::table({{"stage", "memory"}, {"0", "2.02 MiB"}, {"10"}}) ==
        "stage    memory\n    0  2.02 MiB\n   10\n");
  CHECK(gpipe::detail::table({}).empty());
}
