// optimize: yes

#include <gpipe/layer/loss/mean_squared_error.hpp>

#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <limits>

#include <gpipe/layer/loss/binary_cross_entropy.hpp>
#include <gpipe/layer/loss/mean_absolute_error.hpp>
#include <gpipe/tools/testing/layer_fixture.hpp>

using namespace gpipe;
using namespace gpipe::detail;

using grid = bound<mean_squared_error, tensor<bf16, 2, 5>>;
static_assert(parts<grid::output> == 0 && grid::partials.size() == 2);
static_assert(grid::fields[0].name == std::string_view("targets") && grid::fields[0].size == 10);
static_assert(grid::fields[0].type == dtype::float32 && grid::fields[1].size == 1 && grid::fields[1].optional);
using answers = bound<binary_cross_entropy, tensor<float, 3>>;
static_assert(answers::partials.size() == 3 && answers::fields[0].below == 1 && answers::fields[0].size == 3);

namespace {

// The differences .3, -2.5, .65 of a sample with weight 2, and 1, -.2, -1 of one with weight 1/2. Without weights each
// sample counts 1.
template <class Loss, class T>
void gives(double loss, const std::array<double, 6>& gradient, double unweighted, double correct = 0) {
  host::layer_fixture<Loss, tensor<T, 3>> t(2, 3);
  const std::array in{.3, -1.5, .9, 2., -.2, 0.}, targets{0., 1., .25, 1., 0., 1.};
  for (std::size_t i = 0; i < 6; ++i) t.in[0].set(i, in[i]), t.fields[0].set(i, targets[i]);
  t.fields[1].set(0, 2), t.fields[1].set(1, .5);
  t.forward();
  t.backward_input();
  const double tolerance = sizeof(T) == 4 ? 1e-6 : 1e-13;
  CHECK(std::fabs(t.partials[0].get(0) - loss) < 10 * tolerance);
  CHECK(t.partials[0].get(1) == 2.5);
  if (t.partials[0].count() > 2) CHECK(std::fabs(t.partials[0].get(2) - correct) < tolerance);
  for (std::size_t i = 0; i < 6; ++i) CHECK(std::fabs(t.in_gradient[0].get(i) - gradient[i]) < tolerance);

  t.call().fields[1] = nullptr;
  t.forward();
  CHECK(std::fabs(t.partials[0].get(0) / t.partials[0].get(1) - unweighted) < tolerance);
  CHECK(t.overrun().empty());
}

constexpr double third = 1 / 3., sixth = 1 / 6.;

}  // namespace

TEST_CASE_TEMPLATE("mean_squared_error is PyTorch's MSELoss", T, float, double) {
  gives<mean_squared_error, T>(
      4.84833333333333,
      {.4, -3.33333333333333, .866666666666667, .333333333333333, -.0666666666666667, -.333333333333333},
      1.46708333333333);
}
TEST_CASE_TEMPLATE("mean_absolute_error is PyTorch's L1Loss", T, float, double) {
  gives<mean_absolute_error, T>(8 * third, {2 * third, -2 * third, 2 * third, sixth, -sixth, -sixth}, 5.65 * sixth);
}
TEST_CASE_TEMPLATE("huber_loss is PyTorch's HuberLoss", T, float, double) {
  gives<huber_loss<1.5>, T>(2.0908333333333333, {.2, -1, .43333333333333333, sixth, -third / 10, -sixth},
                            3.90125 * sixth);
}
TEST_CASE_TEMPLATE("smooth_l1_loss is PyTorch's SmoothL1Loss", T, float, double) {
  gives<smooth_l1_loss<.5>, T>(2.0833333333333333, {.4, -2 * third, 2 * third, sixth, -.2 * third, -sixth},
                               4.28 * sixth);
}
// Two answers of the second sample are right.
TEST_CASE_TEMPLATE("binary_cross_entropy is PyTorch's BCEWithLogitsLoss", T, float, double) {
  gives<binary_cross_entropy, T>(
      2.61765060828633,
      {.382961677874439, -.545049650795762, .307299668416669, -.0198671536703529, .075027667114587, -.0833333333333333},
      .831689409694646, .5 * 2 / 3);
}

TEST_CASE("where the answer is right the gradient is 0") {
  CHECK(absolute_error::slope(1.5, 1.5) == 0);
  CHECK(bent_error<1.0, false>::slope(1.5, 1.5) == 0);
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

TEST_CASE("an answer is yes above 0, and a label above 1/2") {
  host::layer_fixture<binary_cross_entropy, tensor<float, 1>> t(1, 1);
  t.fields[1].set(0, 1);
  const auto right = [&](double x, double label) {
    t.in[0].set(0, x), t.fields[0].set(0, label);
    t.forward();
    return t.partials[0].get(2) == 1;
  };
  for (const double label : {0., .25, .5}) {
    CHECK_FALSE(right(.1, label));
    CHECK(right(0, label));
    CHECK(right(-.1, label));
  }
  for (const double label : {.5001, .75, 1.}) {
    CHECK(right(.1, label));
    CHECK_FALSE(right(0, label));
    CHECK_FALSE(right(-.1, label));
  }
}

TEST_CASE_TEMPLATE("large logits neither overflow nor lose a small loss", T, float, double) {
  host::layer_fixture<binary_cross_entropy, tensor<T, 1>> t(1, 1);
  t.fields[1].set(0, 1);
  const auto loss = [&](double x, double label) {
    t.in[0].set(0, x), t.fields[0].set(0, label);
    t.forward();
    t.backward_input();
    return t.partials[0].get(0);
  };
  CHECK(loss(1e6, 0) == 1e6);
  CHECK(t.in_gradient[0].get(0) == 1);
  CHECK(loss(-1e6, 1) == 1e6);
  CHECK(t.in_gradient[0].get(0) == -1);
  CHECK(loss(1e6, 1) == 0);
  CHECK(std::fabs(loss(20, 1) / std::log1p(std::exp(-20.)) - 1) < 1e-6);
  CHECK(std::isnan(loss(std::numeric_limits<double>::quiet_NaN(), 1)));
}
