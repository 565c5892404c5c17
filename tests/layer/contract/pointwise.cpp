// optimise: yes

#include <gpipe/layer/contract/pointwise.hpp>

#include <doctest/doctest.h>

#include <cmath>

#include <gpipe/core/numbers/math.hpp>
#include <gpipe/device/host/gradient_check.hpp>

using namespace gpipe;

namespace {

struct softplus : pointwise<softplus> {
  template <class T>
  GPIPE_HOST_DEVICE static T value(T x) {
    return std::log1p(std::exp(x));
  }
  template <class T>
  GPIPE_HOST_DEVICE static T derivative(T x) {
    return math::sigmoid(x);
  }
};

struct square : pointwise_stored<square> {
  template <class T>
  GPIPE_HOST_DEVICE static value_and_derivative<T> both(T x) {
    return {x * x, 2 * x};
  }
};

}  // namespace

static_assert(bound<softplus, tensor<float, 2, 3>>::keeps.input && bound<softplus, tensor<float, 2>>::extras.empty());
static_assert(!bound<square, tensor<float, 2>>::keeps.input && bound<square, tensor<float, 2>>::extras[0].size == 2);

TEST_CASE("a custom pointwise layer has the correct gradient") {
  CHECK(check_gradient<softplus, tensor<double, 2, 3>>().passes());
  CHECK(check_gradient<square, tensor<double, 2, 3>>().passes());
}

TEST_CASE("a pointwise layer applies its function to each element") {
  host::layer_fixture<softplus, tensor<float, 4>> t(1, 1);
  t.randomise(1);
  t.forward();
  for (std::size_t i = 0; i < 4; ++i)
    CHECK(t.out[0].get(i) == doctest::Approx(std::log1p(std::exp(t.in[0].get(i)))).epsilon(1e-6));
}
