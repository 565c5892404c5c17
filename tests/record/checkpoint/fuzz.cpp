// compiled: alone
// sanitizers: address
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <new>
#include <string>

#include "support/fuzz_checkpoints.hpp"

namespace {
std::size_t largest = 0;  // of the allocations since it was set to 0
}

[[gnu::noinline]] void* operator new(std::size_t size) {
  largest = (std::max)(largest, size);
  if (void* p = std::malloc(size)) return p;
  throw std::bad_alloc();
}
[[gnu::noinline]] void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  largest = (std::max)(largest, size);
  return std::malloc(size);
}
[[gnu::noinline]] void operator delete(void* p) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, std::size_t) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, const std::nothrow_t&) noexcept { std::free(p); }

TEST_CASE("100,000 mutated headers and indexes: a named refusal, or what was read is sound") {
  const fuzz::tally found = fuzz::run(100'000, 1);
  CAPTURE(found.first_malformed);
  CHECK(found.malformed == 0);
  CHECK(found.accepted > 5'000);  // the mutations are not so wild that nothing is left to check
  CHECK(found.accepted < 95'000);
}

TEST_CASE("no allocation is larger than the file, beyond a page") {
  using namespace gpipe;
  std::string many = "{", shape = "1", keys = "{\"__metadata__\":{";
  for (int i = 0; i < 20'000; ++i) {
    const std::string n = std::to_string(i);
    many += (i == 0 ? "\"" : ",\"") + n + R"(":{"dtype":"U8","shape":[0],"data_offsets":[0,0]})";
    keys += (i == 0 ? "\"" : ",\"") + n + "\":\"\"";
    shape += ",1";
  }
  const std::string deep = std::string(100'000, '['), text(100'000, 'x');
  for (const std::string& header :
       {many + "}", keys + "}}", R"({"a":{"dtype":"U8","shape":[)" + shape + R"(],"data_offsets":[0,1]}})",
        R"({"a":{"x":)" + deep, "{\"" + text + "\":0}", "{\"__metadata__\":{\"a\":\"" + text + "\"}}"}) {
    largest = 0;
    try {
      detail::parse_header(header, 0, "f");
    } catch (const error&) {
    }
    CHECK(largest <= header.size() + 4096);
    largest = 0;
    try {
      detail::parse_index(header, "f");
    } catch (const error&) {
    }
    CHECK(largest <= header.size() + 4096);
  }
}
