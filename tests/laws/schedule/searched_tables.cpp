// sanitizers: address
// optimize: yes

// A searched table obeys the laws of schedules and its limits, and none of the library's that fits is shorter.

#include "support/searched_tables.hpp"

TEST_CASE("1,000 searched tables are sound, fit, and are never longer than the library's") {
  searches::check_searched_tables(1, 1000);
}
