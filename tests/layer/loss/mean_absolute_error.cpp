// optimize: yes

#include <gpipe/layer/loss/mean_absolute_error.hpp>

#include <doctest/doctest.h>

#include <array>
#include <cmath>

#include <gpipe/tools/testing/layer_fixture.hpp>

using namespace gpipe;
using namespace gpipe::detail;

namespace {

// The differences .3, -2.5, .65 of a sample with weight 2, and 1, -.2, -1 of one with weight 1/2.
template <class Loss, class T>
void gives(double loss, const std::array<double, 6>& gradient) {
  host::layer_fixture<Loss, tensor<T, 3>> t(2, 3);
  const std::array in{.3, -1.5, .9, 2., -.2, 0.}, targets{0., 1., .25, 1., 0., 1.};
  for (std::size_t i = 0; i < 6; ++i) t.in[0].set(i, in[i]), t.fields[0].set(i, targets[i]);
  t.fields[1].set(0, 2), t.fields[1].set(1, .5);
  t.forward();
  t.backward_input();
  const double tolerance = sizeof(T) == 4 ? 1e-6 : 1e-13;
  CHECK(std::fabs(t.partials[0].get(0) - loss) < 10 * tolerance);
  CHECK(t.partials[0].get(1) == 2.5);
  for (std::size_t i = 0; i < 6; ++i) CHECK(std::fabs(t.in_gradient[0].get(i) - gradient[i]) < tolerance);
  CHECK(t.overrun().empty());
}

constexpr double third = 1 / 3., sixth = 1 / 6.;

}  // namespace

TEST_CASE_TEMPLATE("mean_absolute_error is PyTorch's L1Loss", T, float, double) {
  gives<mean_absolute_error, T>(8 * third, {2 * third, -2 * third, 2 * third, sixth, -sixth, -sixth});
}
TEST_CASE_TEMPLATE("huber_loss is PyTorch's HuberLoss", T, float, double) {
  gives<huber_loss<1.5>, T>(2.0908333333333333, {.2, -1, .43333333333333333, sixth, -third / 10, -sixth});
}
TEST_CASE_TEMPLATE("smooth_l1_loss is PyTorch's SmoothL1Loss", T, float, double) {
  gives<smooth_l1_loss<.5>, T>(2.0833333333333333, {.4, -2 * third, 2 * third, sixth, -.2 * third, -sixth});
}

TEST_CASE("where the answer is right the gradient is 0") {
  CHECK(absolute_error::slope(1.5, 1.5) == 0);
  CHECK(bent_error<1.0, false>::slope(1.5, 1.5) == 0);
}
