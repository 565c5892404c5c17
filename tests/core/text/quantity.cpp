#include <gpipe/core/text/quantity.hpp>

#include <doctest/doctest.h>

using namespace gpipe::detail;

TEST_CASE("numbers are written as people read them") {
  CHECK(fixed(1.25, 1) == "1.2");
  CHECK(fixed(-0.5, 3) == "-0.500");
  CHECK(fixed(1e300, 0).size() == 301);
  CHECK(significant(0.001, 3) == "0.001");
  CHECK(significant(1e-9, 3) == "1e-09");
  CHECK(counted(0) == "0");
  CHECK(counted(999) == "999");
  CHECK(counted(1000) == "1 k");
  CHECK(counted(539274) == "539 k");
  CHECK(counted(999'999) == "1 M");
  CHECK(counted(1'055'832'376) == "1.06 G");
  CHECK(counted(~std::uint64_t{0}) == "18.4 E");
  CHECK(sized(512) == "512 B");
  CHECK(sized(1023) == "1023 B");
  CHECK(sized(1024) == "1 KiB");
  CHECK(sized((1 << 20) - 1) == "1 MiB");
  CHECK(sized(13'107'200) == "12.5 MiB");
  CHECK(sized(std::uint64_t{154} << 30) == "154 GiB");
  CHECK(chosen_size(1) == "1 byte");
  CHECK(chosen_size(1000) == "1000 bytes");
  CHECK(chosen_size(51'200) == "51200 bytes (50 KiB)");
  CHECK(chosen_size(50'000) == "50000 bytes (50 KB)");
  CHECK(chosen_size(3'460'300) == "3460300 bytes (3.3 MiB)");
  CHECK(chosen_size(500'000'000) == "500000000 bytes (500 MB)");
  CHECK(chosen_size(1'500'000'000) == "1500000000 bytes (1.5 GB)");
  CHECK(chosen_size(std::uint64_t{8} << 30) == "8589934592 bytes (8 GiB)");
  CHECK(several(1, "micro-batch") == "1 micro-batch");
  CHECK(several(0, "stage") == "0 stages");
  CHECK(several(2, "micro-batch") == "2 micro-batches");
  CHECK(percent(1, 3) == "33.3 %");
  CHECK(percent(1, 0) == "-");
}

TEST_CASE("columns are as wide as their widest cell, and rows may be short") {
  CHECK(gpipe::detail::table({{"stage", "memory"}, {"0", "2.02 MiB"}, {"10"}}) ==
        "stage    memory\n    0  2.02 MiB\n   10\n");
  CHECK(gpipe::detail::table({}).empty());
}
