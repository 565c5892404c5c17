// sanitizers: address

#include <gpipe/runtime/binding/optimizer_update.hpp>

#include <doctest/doctest.h>

#include <vector>

using namespace gpipe;
using namespace gpipe::detail;

namespace {

struct loop_context {
  template <class F>
  void each(std::ptrdiff_t n, F f) const {
    for (std::ptrdiff_t i = 0; i < n; ++i) f(i);
  }
};

template <class T, class Optimizer>
void does_what_the_optimizer_does(const Optimizer& optimizer, dtype type) {
  const update_terms now{.step = 3, .rate = 0.1, .scale = 0.5};
  std::vector<T> p{1, 2, 3}, g{4, -5, 6}, m[2] = {{T(0.1), T(0.2), T(0.3)}, {1, 2, 3}};
  auto expected_p = p;
  std::vector<T> expected_m[2] = {m[0], m[1]};
  const auto rule = optimizer.template rule<T>(
      update_operands<T>{expected_p.data(), g.data(), {expected_m[0].data(), expected_m[1].data()}}, now);
  for (std::ptrdiff_t i = 0; i < 3; ++i) rule(i);

  std::byte* moments[max_moments]{reinterpret_cast<std::byte*>(m[0].data()), reinterpret_cast<std::byte*>(m[1].data())};
  const optimizer_update<loop_context> erased(optimizer);
  CHECK(erased.moments() == Optimizer::moments);
  erased(loop_context{}, type, 3 * sizeof(T), reinterpret_cast<std::byte*>(p.data()),
         reinterpret_cast<const std::byte*>(g.data()), moments, now);
  CHECK(p == expected_p);
  CHECK(p[0] != 1);
  for (int i = 0; i < 2; ++i) CHECK(m[i] == expected_m[i]);
}

}  // namespace

TEST_CASE("an optimizer_update computes the same as its optimizer") {
  does_what_the_optimizer_does<float>(sgd{.momentum = 0.9}, dtype::float32);
  does_what_the_optimizer_does<double>(sgd{.weight_decay = 0.1}, dtype::float64);
  does_what_the_optimizer_does<float>(adam{}, dtype::float32);
  does_what_the_optimizer_does<double>(adamw{.weight_decay = 0.1}, dtype::float64);
}
