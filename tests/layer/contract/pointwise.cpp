// optimize: yes

#include <gpipe/layer/contract/pointwise.hpp>

#include <doctest/doctest.h>

#include <cmath>

#include <gpipe/core/numbers/math.hpp>
#include <gpipe/tools/testing/gradient_check.hpp>

using namespace gpipe;
using namespace gpipe::detail;

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

// By its value alone.
struct mish : pointwise<mish> {
  template <class T>
  GPIPE_HOST_DEVICE static T value(T x) {
    return x * math::tanh(math::log(1 + math::exp(x)));
  }
};
using clamp_or_wave = elementwise<[](auto x) { return 0 < x ? 0.5 * math::min(x, 1.5) : math::sin(x); }>;
using cube = elementwise<[](auto x) { return x * x * x; }>;

}  // namespace

static_assert(bound<softplus, tensor<float, 2, 3>>::keeps.input && bound<softplus, tensor<float, 2>>::extras.empty());
static_assert(!bound<square, tensor<float, 2>>::keeps.input && bound<square, tensor<float, 2>>::extras[0].size == 2);

TEST_CASE("a custom pointwise layer has the correct gradient") {
  CHECK(check_gradient<softplus, tensor<double, 2, 3>>().passes());
  CHECK(check_gradient<square, tensor<double, 2, 3>>().passes());
}

TEST_CASE("a function without a derivative is differentiated") {
  CHECK(check_gradient<mish, tensor<double, 2, 3>>().passes());
  CHECK(check_gradient<clamp_or_wave, tensor<double, 40>>().passes());
  CHECK(check_gradient<cube, tensor<double, 40>>().passes());
}

TEST_CASE_TEMPLATE("the derivative is taken in the type of the element, in float for bf16", T, float, bf16) {
  host::layer_fixture<cube, tensor<T, 40>> t(2, 2);
  t.randomize(1);
  t.forward();
  t.backward_input();
  const double digits = std::is_same_v<T, float> ? 1e-6 : 0x1.01p-8;
  for (std::size_t i = 0; i < 80; ++i) {
    const double x = t.in[0].get(i), dy = t.out_gradient[0].get(i);
    CHECK(std::fabs(t.out[0].get(i) - x * x * x) <= digits * std::fabs(x * x * x));
    CHECK(std::fabs(t.in_gradient[0].get(i) - 3 * x * x * dy) <= digits * std::fabs(3 * x * x * dy));
  }
}

TEST_CASE("a pointwise layer applies its function to each element") {
  host::layer_fixture<softplus, tensor<float, 4>> t(1, 1);
  t.randomize(1);
  t.forward();
  for (std::size_t i = 0; i < 4; ++i)
    CHECK(t.out[0].get(i) == doctest::Approx(std::log1p(std::exp(t.in[0].get(i)))).epsilon(1e-6));
}

namespace {

struct cube_by_value {
  template <class T>
  static T value(T x) {
    return x * x * x;
  }
};
struct cube_by_formula : cube_by_value {
  template <class T>
  static T derivative(T x) {
    return 3 * x * x;
  }
};
struct cube_at_once {
  template <class T>
  static gpipe::value_and_derivative<T> both(T x) {
    return {x * x * x, 3 * x * x};
  }
};

}  // namespace

TEST_CASE_TEMPLATE("a layer gets a function's value and slope, however the function gives them", Function,
                   cube_by_value, cube_by_formula, cube_at_once) {
  CHECK(gpipe::detail::value_and_slope<Function>(2.0).value == 8);
  CHECK(gpipe::detail::value_and_slope<Function>(2.0).derivative == 12);
}
