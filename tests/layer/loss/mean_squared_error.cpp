// optimize: yes

#include <gpipe/layer/loss/mean_squared_error.hpp>

#include <doctest/doctest.h>

#include <array>
#include <cmath>

#include <gpipe/tools/testing/layer_fixture.hpp>

using namespace gpipe;
using namespace gpipe::detail;

using grid = bound<mean_squared_error, tensor<bf16, 2, 5>>;
static_assert(parts<grid::output> == 0 && grid::partials.size() == 2);
static_assert(grid::fields[0].name == std::string_view("targets") && grid::fields[0].size == 10);
static_assert(grid::fields[0].type == dtype::float32 && grid::fields[1].size == 1 && grid::fields[1].optional);

TEST_CASE_TEMPLATE("loss and gradient are those of PyTorch's MSELoss", T, float, double) {
  host::layer_fixture<mean_squared_error, tensor<T, 3>> t(2, 3);
  const std::array in{.3, -1.5, .9, 2., -.2, 0.}, targets{0., 1., .25, 1., 0., 1.};
  const std::array gradient{
      .4, -3.33333333333333, .866666666666667, .333333333333333, -.0666666666666667, -.333333333333333};
  for (std::size_t i = 0; i < 6; ++i) t.in[0].set(i, in[i]), t.fields[0].set(i, targets[i]);
  t.fields[1].set(0, 2), t.fields[1].set(1, .5);
  t.forward();
  t.backward_input();
  const double tolerance = sizeof(T) == 4 ? 1e-6 : 1e-13;
  CHECK(std::fabs(t.partials[0].get(0) - 4.84833333333333) < 10 * tolerance);
  CHECK(t.partials[0].get(1) == 2.5);
  for (std::size_t i = 0; i < 6; ++i) CHECK(std::fabs(t.in_gradient[0].get(i) - gradient[i]) < tolerance);

  t.call().fields[1] = nullptr;  // without weights each sample counts 1
  t.forward();
  CHECK(std::fabs(t.partials[0].get(0) / t.partials[0].get(1) - 1.46708333333333) < tolerance);
  CHECK(t.overrun().empty());
}

TEST_CASE("a recompute leaves the partials alone") {
  host::layer_fixture<mean_squared_error, tensor<float, 3>> t(2, 2);
  t.randomize(1);
  t.forward();
  t.partials[0].set(0, -1);
  t.call().recompute = true;
  t.forward();
  CHECK(t.partials[0].get(0) == -1);
}
