#include <gpipe/transport/in_process/core_placement.hpp>

#include <doctest/doctest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

using gpipe::core_set;
using gpipe::host_cores;
using gpipe::detail::cores;

namespace {

struct given_sets : gpipe::core_placement {
  std::vector<core_set> sets;
  explicit given_sets(std::vector<core_set> all) : sets(std::move(all)) {}
  std::vector<core_set> divide(int, const host_cores&) const override { return sets; }
  bool move_near(void*, std::size_t, const core_set&) const noexcept override { return false; }
};

}  // namespace

TEST_CASE("the workers of a host that may run on the same cores are counted, and numbered") {
  const core_set a{3}, b{0, 1}, c{6};
  const auto of = [&](int mine) { return gpipe::detail::host_cores_of({a, b, a, c, a}, {1, 2, 3, 1, 1}, mine); };
  for (const auto [mine, alike, first] : {std::array{0, 5, 0}, {1, 2, 0}, {2, 5, 1}, {3, 1, 0}, {4, 5, 4}}) {
    CHECK(of(mine).processes == 5);
    CHECK(of(mine).workers == 8);
    CHECK(of(mine).cores == 4);
    CHECK(of(mine).alike == alike);
    CHECK(of(mine).first == first);
  }
}

TEST_CASE("no placement binds nothing") {
  const gpipe::detail::worker_cores none(nullptr, 3, {});
  CHECK(!none);
  const core_set before = cores::allowed_bits();
  none.bind(1);
  CHECK(none.move_near(nullptr, 0, 1));
  CHECK(!none.limits_of({}).bound);
  CHECK(none.limits_of({.yields = true}).yields);
  const gpipe::detail::bound_for_now bound(&none, 0), without(nullptr, 0);
  CHECK(cores::allowed_bits() == before);
}

#if defined(__linux__)
TEST_CASE("a thread is bound for a while, and as before at the end") {
  const core_set before = cores::allowed_bits();
  core_set one{};
  for (std::size_t c = 1024; c-- > 0;)
    if ((before[c / 64] >> c % 64 & 1) != 0) one = {}, one[c / 64] = std::uint64_t{1} << c % 64;
  const given_sets placement({before, one, one});
  const gpipe::detail::worker_cores three(&placement, 3, {});
  CHECK(three);
  CHECK(cores::allowed_bits() == before);  // the constructor has tried each
  CHECK(three.count(1) == 1);
  CHECK(three.count() == gpipe::detail::count_of(before));
  CHECK(three.sharers(0) == 3);
  CHECK(!three.move_near(nullptr, 0, 1));
  CHECK(three.limits_of({}).bound);
  CHECK(three.limits_of({}).yields == (three.count() < 3));
  const given_sets shared({one, one});
  const gpipe::detail::worker_cores two(&shared, 2, {});
  CHECK(two.limits_of({}).yields);  // on one core, whatever the process has
  {
    const gpipe::detail::bound_for_now bound(&three, 1);
    CHECK(cores::allowed_bits() == one);
  }
  CHECK(cores::allowed_bits() == before);
}

TEST_CASE("cores to which the system binds no thread, and a placement with too few sets, are errors") {
  const core_set before = cores::allowed_bits();
  core_set absent{};
  absent.back() = std::uint64_t{1} << 63;
  const given_sets elsewhere({before, absent}), empty({before, {}}), few({before});
  for (const given_sets* it : {&elsewhere, &empty})
    CHECK_THROWS_WITH_AS(gpipe::detail::worker_cores(it, 2, {}),
                         doctest::Contains("cores of worker 1; make the core_binding under the limits"), gpipe::error);
  CHECK(cores::allowed_bits() == before);
  core_set one{};  // the thread is bound to fewer cores than when the placement was made
  for (std::size_t c = 1024; c-- > 0;)
    if ((before[c / 64] >> c % 64 & 1) != 0) one = {}, one[c / 64] = std::uint64_t{1} << c % 64;
  const given_sets all({one, before});
  const gpipe::detail::worker_cores held(&all, 2, {});
  REQUIRE(cores::bind(one));
  if (one != before)
    CHECK_THROWS_WITH_AS(gpipe::detail::worker_cores(&all, 2, {}),
                         doctest::Contains("cores of worker 1; make the core_binding under the limits"), gpipe::error);
  REQUIRE(cores::bind(before));
  CHECK_THROWS_WITH_AS(gpipe::detail::worker_cores(&few, 2, {}), doctest::Contains("2 workers got 1 sets of cores"),
                       gpipe::error);
}
#endif
