// optimize: yes
// check: whole

// The law of searched_tables.cpp, ten times as often.

#include "support/searched_tables.hpp"

TEST_CASE("10,000 searched tables are sound, fit, and are never longer than the library's") {
  searches::check_searched_tables(2, 10000);
}
