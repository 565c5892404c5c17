// compiled: alone
#include <gpipe/plan/memory/requirements.hpp>

using namespace gpipe;

// The schedule fills them: tests/plan/memory/derive_requirements.cpp.
static_assert(memory_requirements{} == memory_requirements{});
static_assert(memory_requirements{.in_flight = 2} != memory_requirements{});
static_assert(!memory_requirements{}.separate_memory());
static_assert(memory_requirements{.outgoing = {0, 0, 2}}.separate_memory());
