// optimize: yes

#include <gpipe/layer/shape/add.hpp>

#include <doctest/doctest.h>

#include <gpipe/layer/shape/multiply.hpp>
#include <gpipe/tools/testing/layer_fixture.hpp>

using namespace gpipe;
using namespace gpipe::detail;

using pair_of = bundle<tensor<float, 3, 4>, tensor<float, 3, 4>>;
static_assert(std::is_same_v<bound<add, pair_of>::output, tensor<float, 3, 4>>);

TEST_CASE("add adds, and passes its gradient to both inputs") {
  host::layer_fixture<add, pair_of> t(2, 2);
  t.randomize(3);
  t.forward();
  t.backward_input();
  for (std::size_t i = 0; i < 24; ++i) {
    CHECK(t.out[0].get(i) == doctest::Approx(t.in[0].get(i) + t.in[1].get(i)).epsilon(1e-6));
    CHECK(t.in_gradient[0].get(i) == t.out_gradient[0].get(i));
    CHECK(t.in_gradient[1].get(i) == t.out_gradient[0].get(i));
  }
}

TEST_CASE("an input's gradient that is the output's gradient already is not copied") {
  host::layer_fixture<add, pair_of> t(2, 2);
  t.randomize(3);
  t.call().in_gradient[0] = t.out_gradient[0].data();
  const auto before = t.out_gradient[0].bits();
  t.backward_input();
  CHECK(t.out_gradient[0].bits() == before);
  CHECK(t.in_gradient[1].get(23) == t.out_gradient[0].get(23));
}

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
