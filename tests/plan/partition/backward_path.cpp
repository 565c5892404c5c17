#include <gpipe/plan/partition/backward_path.hpp>

#include <doctest/doctest.h>

#include <random>
#include <vector>

#include <gpipe/plan/program/simulate.hpp>
#include <gpipe/plan/schedule/fill_drain.hpp>

using namespace gpipe;
using detail::backward_path;

namespace {

// M = 4. The last stage keeps all sets, the first keeps one: 3 + 3 or 3 + 5 or 5 + 5 ... of its three steps.
constexpr std::int64_t path_of_two() {
  const backward_path path(4);
  std::int64_t h[4] = {};
  path.extend(h, 9, 3, 4, h);
  path.extend(h, 2, 3, 1, h);
  return h[3];
}
static_assert(path_of_two() == 3 * 5);

constexpr std::int64_t none[4] = {};
static_assert(backward_path(4).size() == 4 && backward_path(4).shortest(none, 7) == 21);

}  // namespace

TEST_CASE("the longest path is that of the simulated step") {
  std::mt19937 random(11);
  const auto below = [&random](int limit) { return static_cast<int>(random() % static_cast<unsigned>(limit)); };
  for (int i = 0; i < 500; ++i) {
    const int S = 1 + below(5), M = 1 + below(7);
    std::vector<stage_times> times(static_cast<std::size_t>(S));
    std::vector<int> kept(static_cast<std::size_t>(S));
    std::vector<stage_link> links;
    for (int s = 0; s + 1 < S; ++s) links.push_back({s, s + 1, true});
    const backward_path path(M);
    std::vector<std::int64_t> h(static_cast<std::size_t>(M));
    std::int64_t once = 0, forward = 0;
    for (int s = S - 1; s >= 0; --s) {
      stage_times& it = times[static_cast<std::size_t>(s)];
      it = {below(20), below(20), 0};
      kept[static_cast<std::size_t>(s)] = 1 + below(M);
      path.extend(h.data(), it.forward, it.backward_input, kept[static_cast<std::size_t>(s)], h.data());
      once += it.forward + it.backward_input;
      forward = it.forward > forward ? it.forward : forward;
    }
    const std::int64_t step = simulate(
        fill_drain{},
        {S, M, {recompute_mode::as_needed, kept.data()}, times.data(), links.data(), static_cast<int>(links.size())});
    REQUIRE(once + (M - 1) * forward + h.back() == step);
  }
}
