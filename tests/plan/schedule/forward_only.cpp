#include <gpipe/plan/schedule/forward_only.hpp>

#include <gpipe/plan/program/print.hpp>
#include <gpipe/plan/schedule/interleaved.hpp>

#include <doctest/doctest.h>

#include <string>

using namespace gpipe;
using namespace gpipe::detail;

static std::string row_text(int stages, int micro_batches, int worker) {
  std::string text;
  for (int t = 0; t < forward_only::ticks(stages, micro_batches); ++t)
    text.append(t ? " " : "").append(label_of(forward_only::at(stages, micro_batches, worker, t)).text());
  return text;
}

static_assert(forward_only::at(3, 2, 2, 3) == cell{action_kind::forward, 2, 1});
static_assert(!forward_only::trains && forward_only::in_flight(4, 8, 0) == 1);

TEST_CASE("the table matches the drawing") {
  CHECK(row_text(3, 2, 0) == "F0 F1 . .");
  CHECK(row_text(3, 2, 1) == ". F0 F1 .");
  CHECK(row_text(3, 2, 2) == ". . F0 F1");
}
