// optimize: yes

#include <gpipe/layer/shape/multiply.hpp>

#include <doctest/doctest.h>

#include <gpipe/tools/testing/layer_fixture.hpp>

using namespace gpipe;
using namespace gpipe::detail;

using pair_of = bundle<tensor<float, 3, 4>, tensor<float, 3, 4>>;
static_assert(std::is_same_v<bound<multiply, pair_of>::output, tensor<float, 3, 4>>);
static_assert(bound<multiply, pair_of>::keeps.input && bound<multiply, pair_of>::cost.backward_input == 24);

TEST_CASE("multiply multiplies, and each input's gradient is scaled by the other input") {
  host::layer_fixture<multiply, pair_of> t(2, 2);
  t.randomize(3);
  t.forward();
  t.backward_input();
  for (std::size_t i = 0; i < 24; ++i) {
    const double left = t.in[0].get(i), right = t.in[1].get(i), dy = t.out_gradient[0].get(i);
    CHECK(t.out[0].get(i) == doctest::Approx(left * right).epsilon(1e-6));
    CHECK(t.in_gradient[0].get(i) == doctest::Approx(dy * right).epsilon(1e-6));
    CHECK(t.in_gradient[1].get(i) == doctest::Approx(dy * left).epsilon(1e-6));
  }
}
