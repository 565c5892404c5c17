#include <gpipe/plan/memory/memory_kind.hpp>

#include <doctest/doctest.h>

#include <string>

using namespace gpipe;

// The layout that fills it: tests/plan/memory/layout.cpp.
TEST_CASE("bytes are counted by kind and in total") {
  stage_memory m;
  m.bytes[static_cast<int>(memory_kind::stash)] = 64;
  m.bytes[static_cast<int>(memory_kind::kept)] = 128;
  CHECK(m.of(memory_kind::stash) == 64);
  CHECK(m.of(memory_kind::parameters) == 0);
  CHECK(m.total() == 192);
  CHECK(m.before(static_cast<int>(memory_kind::kept)) == 64);
  CHECK(std::string(name_of(memory_kind::stash)) == "stash");
}
