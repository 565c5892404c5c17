#include <gpipe/plan/timetable/fault.hpp>

#include <doctest/doctest.h>

#include <string>

using namespace gpipe;
using namespace gpipe::detail;

static_assert(check_result{}.ok());
static_assert(!check_result{.error = fault::deadlock}.ok());

TEST_CASE("every fault has its own name") {
  for (int a = 0; a <= static_cast<int>(fault::stash); ++a)
    for (int b = 0; b < a; ++b)
      CHECK(std::string(name_of(static_cast<fault>(a))) != std::string(name_of(static_cast<fault>(b))));
  CHECK(std::string(name_of(fault::stash)) == "stash");
}
