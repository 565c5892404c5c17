// optimize: yes

#include <gpipe/layer/loss/auxiliary_loss.hpp>

#include <doctest/doctest.h>

#include <gpipe/layer/loss/softmax_cross_entropy.hpp>
#include <gpipe/tools/testing/layer_fixture.hpp>

using namespace gpipe;
using namespace gpipe::detail;

namespace {

struct early {
  static constexpr const char* loss_named = "early";
  static constexpr double factor = 0.4;
};
using loss = auxiliary_loss<early, softmax_cross_entropy>;

}  // namespace

static_assert(loss::on<tensor<float, 5>>::loss_name == "early" && loss::on<tensor<float, 5>>::loss_factor == 0.4);

TEST_CASE_TEMPLATE("the gradient has the factor, the partials do not", T, float, double, bf16) {
  host::layer_fixture<loss, tensor<T, 5>> scaled(3, 3);
  host::layer_fixture<softmax_cross_entropy, tensor<T, 5>> plain(3, 3);
  scaled.randomize(1), plain.randomize(1);
  scaled.forward(), plain.forward();
  scaled.backward_input(), plain.backward_input();
  CHECK(scaled.partials[0].bits() == plain.partials[0].bits());
  using number = compute_type<T>;
  for (std::size_t i = 0; i < 15; ++i)
    CHECK(scaled.in_gradient[0].get(i) ==
          static_cast<double>(T(static_cast<number>(plain.in_gradient[0].get(i)) * number(0.4))));
  CHECK(scaled.overrun().empty());
}
