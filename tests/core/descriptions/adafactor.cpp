#include <gpipe/core/descriptions/adafactor.hpp>

#include <doctest/doctest.h>

#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "support/optimizer_steps.hpp"

using namespace gpipe;

namespace {

constexpr auto on_matrix = detail::tensor_memory_of<adafactor>;
static_assert(adafactor::array({200, 300}, 0).extents == tensor_extents{200});
static_assert(adafactor::array({200, 300}, 1).extents == tensor_extents{300});
static_assert(adafactor::array({200, 300}, 2).extents.size() == 0);
static_assert(adafactor::array({64}, 0).extents.size() == 0 && adafactor::array({64}, 2).extents == tensor_extents{64});
static_assert(adafactor::array({8, 4, 3, 3}, 2).extents == tensor_extents{8, 4, 3, 3});  // of rank 2 alone
// 8 rows, 16 columns, 27 doubles; each is aligned to 64 bytes.
static_assert(on_matrix.bytes({8, 16}, dtype::float32) == 64 + 64 + 256);
static_assert(tensor_rule<adafactor> && tensor_rule<adafactor_with_momentum> && !tensor_rule<adam>);

}  // namespace

TEST_CASE("two steps on a matrix: rows, columns and weights of the worked numbers") {
  std::array<double, 6> p{.1, -.2, .3, -.4, .5, -.6}, g{1, 2, 3, -1, .5, 2};
  std::array<double, 2> r{};
  std::array<double, 3> c{};
  std::array<double, 8> sums{};
  const tensor_operands<double> of{{2, 3}, p.data(), g.data(), {}, {r.data(), c.data()}, sums.data()};
  const auto equals = [](const auto& found, const auto& expected) {
    for (std::size_t i = 0; i < found.size(); ++i) CHECK(found[i] == doctest::Approx(expected[i]).epsilon(1e-8));
  };
  adafactor{}.update(host::context{}, of, {1, 1, 1});
  equals(r, std::array{4.666666667, 1.75});
  equals(c, std::array{1.0, 2.125, 6.5});
  equals(p, std::array{.0968003, -.204389952, .296234923, -.394774912, .49820781, -.604098896});
  g = {.5, -1, 1, 2, 0, -1};
  adafactor{}.update(host::context{}, of, {2, 1, 1});
  equals(p, std::array{.09540096, -.201100628, .294270462, -.401445069, .49820781, -.601757923});
}

TEST_CASE("twenty steps have the numbers of an independent implementation") {
  laws::agrees_with({0.59123727908723889, 0.40839473225870754, -0.033812325267690055, -0.34567326228925044,
                     -0.34938626157106872, -0.033207824272688931},
                    adafactor{}, {2, 3});
  laws::agrees_with({0.59334337097505152, 0.41030062391092947, -0.028878963047264852, -0.34603317626275776,
                     -0.34833238387872345, -0.033411114938151389},
                    adafactor{}, {6});
  laws::agrees_with({0.59334337097505152, 0.41030062391092947, -0.028878963047264852, -0.34603317626275776,
                     -0.34833238387872345, -0.033411114938151389},
                    adafactor{}, {1, 2, 3});
  laws::agrees_with({0.5920110465636419, 0.41328709049964979, -0.02296559668678911, -0.35401465103533258,
                     -0.35103422198661122, -0.020130676901522718},
                    adafactor_with_momentum{}, {3, 2});
  laws::agrees_with({0.54973795047661167, 0.3993584668205542, -0.12369488642408967, -0.31712423468835682,
                     -0.35676635752365499, -0.16100163741321444},
                    adafactor{.learning_rate = 0.02, .relative_step = false, .scale_parameter = false}, {2, 3});
}

TEST_CASE("a parameter of small numbers moves by epsilon_parameter, and a large one by its size") {
  // All gradients are equal, so u is 1 in each element, and the step of t = 1 is 1e-2.
  for (const auto& one : {std::pair{0., 1e-2}, {.25, 1e-2}, {1., 1e-2}, {2., 2e-2}, {8., 8e-2}})
    for (const tensor_extents& extents : {tensor_extents{2, 2}, tensor_extents{4}}) {
      const double size = one.first, moved = one.second;
      CAPTURE(size);
      double p[4] = {size, -size, size, -size}, g[4] = {3, 3, 3, 3}, row[2]{}, column[2]{}, square[4]{}, sums[8]{};
      adafactor{.epsilon_parameter = 1}.update(
          host::context{}, tensor_operands<double>{extents, p, g, {}, {row, column, square}, sums}, {1, 1, 1});
      CHECK(p[0] == doctest::Approx(size - moved).epsilon(1e-12));
      CHECK(p[1] == doctest::Approx(-size - moved).epsilon(1e-12));
    }
}

TEST_CASE("the relative step is 1e-2 up to step 10^4, then 1 / sqrt(t)") {
  for (const auto& one : {std::pair{std::int64_t{1}, 1e-2}, {9'999, 1e-2}, {10'000, 1e-2}, {40'000, 5e-3}}) {
    const std::int64_t t = one.first;
    const double moved = one.second;
    CAPTURE(t);
    double p[2] = {1, -1}, g[2] = {3, 3}, square[2] = {9, 9}, sums[8]{};
    adafactor{}.update(host::context{},
                       tensor_operands<double>{tensor_extents{2}, p, g, {}, {nullptr, nullptr, square}, sums},
                       {t, 1, 1});
    CHECK(p[0] == doctest::Approx(1 - moved).epsilon(1e-12));
    CHECK(p[1] == doctest::Approx(-1 - moved).epsilon(1e-12));
  }
}

TEST_CASE("gradients of zero move nothing") {
  double p[4] = {1, 2, 3, 4}, g[4]{}, arrays[4]{}, sums[8]{};
  for (int t = 1; t < 4; ++t)
    adafactor{}.update(host::context{}, tensor_operands<double>{{2, 2}, p, g, {}, {arrays, arrays + 2}, sums},
                       {t, 1, 1});
  CHECK(p[0] == 1);
  CHECK(p[3] == 4);
}

TEST_CASE("settings out of range are refused") {
  laws::refuses(adafactor{.clip = 0}, "clip is 0; choose a number above 0");
  laws::refuses(adafactor{.momentum = 0.9}, "momentum is 0.9; choose adafactor_with_momentum, or 0");
  laws::refuses(adafactor_with_momentum{.momentum = 1}, "momentum is 1; choose 0 or more, and less than 1");
  laws::refuses(adafactor{.epsilon = -1}, "epsilon is -1; choose a number above 0");
  laws::refuses(adafactor{.weight_decay = -1}, "weight_decay is -1; choose 0 or more");
}
