// optimize: yes

#include <gpipe/layer/activation/gated.hpp>

#include <doctest/doctest.h>

#include <type_traits>

#include <gpipe/layer/activation/relu.hpp>
#include <gpipe/layer/activation/silu.hpp>
#include <gpipe/tools/testing/layer_fixture.hpp>

using namespace gpipe;
using namespace gpipe::detail;

namespace {

using halved = bound<gated<silu>, tensor<bf16, 3, 8>>;
static_assert(std::is_same_v<halved::output, tensor<bf16, 3, 4>> && halved::keeps.input && halved::extras.empty());

template <class Layer, class In>
concept takes = requires {
  sizeof(typename Layer::template on<In>);
};
static_assert(takes<gated<silu>, tensor<float, 2>> && !takes<gated<silu>, tensor<float, 3>>);
static_assert(!takes<gated<silu>, tensor<std::int32_t, 2>>);

// The logistic function: the gate of Dauphin et al., by its value alone.
struct logistic : pointwise<logistic> {
  template <class T>
  GPIPE_HOST_DEVICE static T value(T x) {
    return math::sigmoid(x);
  }
};

}  // namespace

TEST_CASE("the first half, after the function, is the factor of the second half") {
  host::layer_fixture<gated<relu>, tensor<float, 2, 6>> t(2, 3);
  t.randomize(1);
  t.forward();
  t.backward_input();
  for (std::size_t row = 0; row < 4; ++row)
    for (std::size_t i = 0; i < 3; ++i) {
      const double gate = t.in[0].get(6 * row + i), x = t.in[0].get(6 * row + 3 + i);
      const double dy = t.out_gradient[0].get(3 * row + i), open = gate > 0 ? 1 : 0;
      CHECK(t.out[0].get(3 * row + i) == static_cast<double>(static_cast<float>(open * gate * x)));
      CHECK(t.in_gradient[0].get(6 * row + i) == static_cast<double>(static_cast<float>(open * dy * x)));
      CHECK(t.in_gradient[0].get(6 * row + 3 + i) == static_cast<double>(static_cast<float>(open * dy * gate)));
    }
  CHECK(t.overrun() == "");
}

TEST_CASE("any function of an element is a gate") {
  host::layer_fixture<gated<logistic>, tensor<double, 2>> t(1, 1);
  t.in[0].set(0, 1), t.in[0].set(1, 3);
  t.forward();
  CHECK(t.out[0].get(0) == doctest::Approx(3 * 0.7310585786300049).epsilon(1e-15));
}
