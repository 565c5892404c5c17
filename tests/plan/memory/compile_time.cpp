#include <gpipe/plan/memory/compile_time.hpp>

#include <doctest/doctest.h>

#include <gpipe/model/model.hpp>

#include "support/chains.hpp"

using namespace gpipe;

namespace {

/// `Blocks` blocks of 12 layers on `Stages` stages, as even as whole layers allow.
template <int Blocks, int Stages>
struct even {
  static constexpr int stages = Stages;
  static constexpr const network& net = network_of<laws::transformer<Blocks, 8, 16, 32>>;
  struct boundaries {
    int first[Stages + 1]{};
  };
  static constexpr boundaries at = [] {
    boundaries p;
    for (int s = 0; s <= Stages; ++s) p.first[s] = s * net.layer_count / Stages;
    return p;
  }();
  static constexpr stage_view view(int s) { return {net, cut{at.first, Stages}, s}; }
  static constexpr memory_requirements requirements(int s) { return {8, 2, s == 3 ? 4 : 8, 1, 2}; }
};

// The paper's largest model, in stages and in one piece: within the compilers' default limits.
using large = even<1663, 128>;
constexpr int distinct = [] {
  int count = 0;
  for (int s = 0; s < 128; ++s) count += detail::equal_stages<large>.elements[s] == s;
  return count;
}();
static_assert(distinct < 30);
using whole = even<100, 1>;

template <class Cut>
void equals_the_count_at_run_time() {
  for (int s = 0; s < Cut::stages; ++s) {
    const stage_memory &made = detail::memory_table<Cut>.elements[s],
                       found = memory_of(Cut::view(s), Cut::requirements(s));
    for (int kind = 0; kind < memory_kinds; ++kind) CHECK(made.bytes[kind] == found.bytes[kind]);
    CHECK(made.naive == found.naive);
    CHECK(made.lower_bound == found.lower_bound);
  }
}

/// Two blocks on two stages.
struct halves {
  static constexpr int stages = 2;
  static constexpr const network& net = network_of<laws::transformer<2, 8, 16, 32>>;
  static constexpr int first[] = {0, net.layer_count / 2, net.layer_count};
  static constexpr stage_view view(int s) { return {net, cut{first, stages}, s}; }
  static constexpr memory_requirements requirements(int) { return {8, 2, 4, 1, 2}; }
};
constexpr std::int64_t max = [] {
  const auto a = detail::memory_table<halves>.elements[0].total(), b = detail::memory_table<halves>.elements[1].total();
  return a > b ? a : b;
}();

// A stage that does not fit does not compile: tests/compile_fail/plan_memory.cpp.
static_assert(detail::each_stage_fits<halves, detail::equal_limit<max>>(std::make_integer_sequence<int, 2>{}));

}  // namespace

TEST_CASE("the table equals the bytes counted at run time, stage by stage") {
  equals_the_count_at_run_time<large>();
  equals_the_count_at_run_time<whole>();
  equals_the_count_at_run_time<even<3, 7>>();
}

TEST_CASE("stages are equal only with equal requirements") {
  CHECK(detail::equal_stages<large>.elements[3] == 3);  // it has less in flight
}

TEST_CASE("a stage fits a limit of its bytes or more") {
  CHECK(detail::each_stage_fits<halves, detail::equal_limit<max + 1>>(std::make_integer_sequence<int, 2>{}));
}
