#include <gpipe/plan/stages/cut.hpp>

#include <doctest/doctest.h>

using gpipe::cut;

namespace {

constexpr int first[] = {0, 3, 5, 8};
constexpr cut three{first, 3};
static_assert(three.stage_of(-1) == -1 && three.stage_of(0) == 0 && three.stage_of(2) == 0 && three.stage_of(3) == 1 &&
              three.stage_of(4) == 1 && three.stage_of(5) == 2 && three.stage_of(7) == 2);

}  // namespace

TEST_CASE("one stage holds all layers") {
  constexpr int whole[] = {0, 8};
  CHECK(cut{whole, 1}.stage_of(0) == 0);
  CHECK(cut{whole, 1}.stage_of(7) == 0);
}
