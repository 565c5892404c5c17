// optimize: yes

#include <gpipe/layer/activation/silu.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

using namespace gpipe;

TEST_CASE("silu has the values of PyTorch's silu") {
  CHECK(silu::both(1.0).value == doctest::Approx(0.7310585786300049).epsilon(1e-15));
  CHECK(silu::both(-1.0).value == doctest::Approx(-0.2689414213699951).epsilon(1e-15));
  CHECK(silu::both(2.0).derivative == doctest::Approx(1.0907842487848955).epsilon(1e-15));
  CHECK(silu::both(0.0).value == 0);
  CHECK(silu::both(0.0).derivative == 0.5);
}

TEST_CASE_TEMPLATE("far from 0 silu is x or 0, and never NaN", T, float, double) {
  for (const T x : {T(1e4), T(1e30), std::numeric_limits<T>::max()}) {
    CHECK(silu::both(x).value == x);
    CHECK(silu::both(x).derivative == 1);
    CHECK(silu::both(-x).value == 0);
    CHECK(silu::both(-x).derivative == 0);
  }
  CHECK(std::isnan(silu::both(std::numeric_limits<T>::quiet_NaN()).value));
}
