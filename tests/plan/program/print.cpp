#include <gpipe/plan/program/print.hpp>

#include <doctest/doctest.h>

using namespace gpipe;
using namespace gpipe::detail;

TEST_CASE("programs and check results print as text") {
  const instruction lines[] = {
      {action_kind::forward, 2, 1, -1}, {action_kind::send_activation, 2, 1, 4}, {action_kind::backward, 2, 1, -1}};
  CHECK(describe(program_view{lines, 3}) == "F1 F1>4 B1");
  CHECK(describe(program_view{lines, 3}, true) == "2F1 2F1>4 2B1");
  CHECK(describe(program_view{}) == "");
  CHECK(describe(check_result{}) == "no fault");
  CHECK(describe(check_result{fault::deadlock, 1, 7, {action_kind::send_activation, 1, 0, 3}}) ==
        "deadlock: worker 1 at line 7, 1F0>3 (send activation)");
}
