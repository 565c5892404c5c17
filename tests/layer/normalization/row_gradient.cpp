#include <gpipe/layer/normalization/row_gradient.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <vector>

#include <gpipe/layer/normalization/layer_norm.hpp>
#include <gpipe/layer/normalization/rms_norm.hpp>
#include <gpipe/tools/testing/layer_fixture.hpp>

using namespace gpipe;

namespace {

template <class Layer, class T>
struct norm_of {
  using layer = Layer;
  using input = tensor<T, 3, 37>;
};

template <class Norm>
using fixture = host::layer_fixture<typename Norm::layer, typename Norm::input>;

template <class Norm>
void run_backward(fixture<Norm>& t) {
  t.randomize(7);
  t.forward();
  t.backward_input();
}

}  // namespace

TEST_CASE_TEMPLATE("the gradient is added to those of other readers, with the bits of an addition afterwards", Norm,
                   norm_of<layer_norm, bf16>, norm_of<rms_norm, bf16>) {
  fixture<Norm> apart(4, 5), at_once(4, 5);
  run_backward<Norm>(apart);
  const std::size_t count = 4 * 3 * 37;
  std::vector<bf16> sum(count), before(count);
  for (std::size_t i = 0; i < count; ++i) sum[i] = before[i] = bf16(static_cast<float>(i % 13) * 0.37F - 2);
  bool added = false;
  at_once.call().gradient_sum = reinterpret_cast<std::byte*>(sum.data());
  at_once.call().added = &added;
  run_backward<Norm>(at_once);
  CHECK(added);
  CHECK(at_once.in_gradient[0].bits() == apart.in_gradient[0].bits());
  CHECK(at_once.overrun().empty());
  const auto* made = reinterpret_cast<const bf16*>(apart.in_gradient[0].data());
  std::size_t equal = 0, changed = 0;
  for (std::size_t i = 0; i < count; ++i) {
    equal += sum[i].bits == bf16(before[i] + made[i]).bits;
    changed += sum[i].bits != before[i].bits;
  }
  CHECK(equal == count);
  CHECK(changed > count / 2);
}

TEST_CASE_TEMPLATE("numbers that are not rounded between are left to the executor", Norm, norm_of<layer_norm, float>,
                   norm_of<rms_norm, float>, norm_of<layer_norm, double>) {
  fixture<Norm> t(4, 5);
  std::byte sum[sizeof(double) * 4 * 3 * 37]{};
  bool added = false;
  t.call().gradient_sum = sum;
  t.call().added = &added;
  run_backward<Norm>(t);
  CHECK(!added);
  for (const std::byte b : sum) REQUIRE(b == std::byte{0});
}
