// sanitizers: address

#include <gpipe/runtime/binding/arena_map.hpp>

#include <doctest/doctest.h>

#include <stdexcept>

using namespace gpipe;
using gpipe::detail::arena_map;

TEST_CASE("arena_map finds a block by its content, and a copy by the slot of its micro-batch") {
  std::byte arena[512];
  arena_map map(arena);
  map.add({memory_kind::parameters, 3, -1, 0, 64, 64});
  map.add({memory_kind::stash, -1, 7, 1, 128, 64, 3});
  const int first[] = {2, 0, 1}, later[] = {2, 1, 0};
  const detail::slot_table memory_slots(first, later);

  CHECK(map.find(memory_kind::parameters, 3, -1).at(2, false) == arena + 64);
  CHECK(map.find(memory_kind::parameters, 3, -1, memory_slots).at(0, true) == arena + 64);  // one copy for all
  const auto stashed = map.find(memory_kind::stash, -1, 7, memory_slots, 1);
  CHECK(stashed.at(0, false) == arena + 256);
  CHECK(stashed.at(1, false) == arena + 128);
  CHECK(stashed.at(2, false) == arena + 192);
  CHECK(stashed.at(1, true) == arena + 192);  // another slot in recompute and backward

  CHECK(map.has(memory_kind::stash, -1, 7, 1));
  CHECK(!map.has(memory_kind::stash, -1, 7));
  CHECK(!map.has(memory_kind::kept, -1, 7, 1));
  CHECK_THROWS_AS(map.find(memory_kind::kept, -1, 7), std::out_of_range);
  CHECK(detail::block_address{}.at(5, false) == nullptr);
}
