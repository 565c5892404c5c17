// optimize: yes

#include <gpipe/layer/loss/binary_cross_entropy.hpp>

#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <limits>

#include <gpipe/tools/testing/layer_fixture.hpp>

using namespace gpipe;
using namespace gpipe::detail;

using answers = bound<binary_cross_entropy, tensor<float, 3>>;
static_assert(answers::partials.size() == 3 && answers::fields[0].below == 1 && answers::fields[0].size == 3);

TEST_CASE_TEMPLATE("loss and gradient are those of PyTorch's BCEWithLogitsLoss", T, float, double) {
  host::layer_fixture<binary_cross_entropy, tensor<T, 3>> t(2, 3);
  const std::array in{.3, -1.5, .9, 2., -.2, 0.}, labels{0., 1., .25, 1., 0., 1.};
  const std::array gradient{.382961677874439,   -.545049650795762, .307299668416669,
                            -.0198671536703529, .075027667114587,  -.0833333333333333};
  for (std::size_t i = 0; i < 6; ++i) t.in[0].set(i, in[i]), t.fields[0].set(i, labels[i]);
  t.fields[1].set(0, 2), t.fields[1].set(1, .5);
  t.forward();
  t.backward_input();
  const double tolerance = sizeof(T) == 4 ? 1e-6 : 1e-13;
  CHECK(std::fabs(t.partials[0].get(0) - 2.61765060828633) < 10 * tolerance);
  CHECK(t.partials[0].get(1) == 2.5);
  CHECK(std::fabs(t.partials[0].get(2) - .5 * 2 / 3) < tolerance);  // two answers of the second sample
  for (std::size_t i = 0; i < 6; ++i) CHECK(std::fabs(t.in_gradient[0].get(i) - gradient[i]) < tolerance);

  t.call().fields[1] = nullptr;
  t.forward();
  CHECK(std::fabs(t.partials[0].get(0) / t.partials[0].get(1) - .831689409694646) < tolerance);
  CHECK(t.overrun().empty());
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
