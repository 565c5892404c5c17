#include <gpipe/layer/contract/kind.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <vector>

#include <gpipe/layer/contract/initialized.hpp>
#include <gpipe/layer/linear/linear.hpp>
#include <gpipe/runtime/binding/kernel_table.hpp>
#include <gpipe/tools/testing/gradient_check.hpp>
#include <gpipe/tools/testing/layer_fixture.hpp>

using namespace gpipe;
using namespace gpipe::detail;

namespace {

/// y = x * factor, element by element, where a factor is a parameter; an extra keeps x, behind another one.
template <class T>
struct scaling {
  using value_type = T;
  struct numbers {
    std::ptrdiff_t elements;
  };

  template <class C, class A>
  static void forward(const C& c, const A& a) {
    const std::ptrdiff_t n = a.sizes().elements;
    c.copy(a.samples() * n, a.in(), a.template extra<1, T>());
    c.rows(a.samples(), product{a.in(), a.template parameter<1>(), a.out(), n});
  }
  template <class C, class A>
  static void backward_input(const C& c, const A& a) {
    c.rows(a.samples(), product{a.out_gradient(), a.template parameter<1>(), a.in_gradient(), a.sizes().elements});
  }
  template <class C, class A>
  static void backward_parameters(const C& c, const A& a) {
    const std::ptrdiff_t n = a.sizes().elements;
    c.columns(a.samples(), n, slope{a.template extra<1, T>(), a.out_gradient(), n}, a.template gradient<1>());
  }

  struct product {
    const T *x, *factor;
    T* y;
    std::ptrdiff_t n;
    template <class Team>
    GPIPE_HOST_DEVICE void operator()(std::ptrdiff_t row, const Team& team) const {
      const T *in = x + row * n, *by = factor;
      T* out = y + row * n;
      team.each(n, [=](std::ptrdiff_t i) { out[i] = in[i] * by[i]; });
    }
  };
  struct slope {
    const T *x, *dy;
    std::ptrdiff_t n;
    GPIPE_HOST_DEVICE T operator()(std::ptrdiff_t row, std::ptrdiff_t i) const {
      return x[row * n + i] * dy[row * n + i];
    }
  };
};

struct scaled {
  template <class In>
  struct on;
  template <class T, int N>
  struct on<tensor<T, N>> : of_kind<on<tensor<T, N>>, scaling<T>> {
    using output = tensor<T, N>;
    static constexpr typename scaling<T>::numbers sizes{N};
    static constexpr parameter parameters[] = {{"unused", {3 * N}}, {"factor", {N}, initializer::ones()}};
    static constexpr buffer extras[] = {{"other", 2 * N, dtype::uint8}, {"input", N, dtype_of<T>}};
  };
};

/// Its own kernel, which calls that of its base.
struct derived {
  template <class In>
  struct on : scaled::on<In> {
    static void forward(const auto& c, const auto& a) {
      scaled::on<In>::forward(c, a);
      c.fill(1, typename In::value_type(7), a.out());
    }
  };
};

template <class Layer, int N>
constexpr auto type_of = entry_points<bound<Layer, tensor<float, N>>, host::context>::row();

}  // namespace

static_assert(type_of<scaled, 4>.forward == type_of<scaled, 70>.forward);
static_assert(type_of<scaled, 4>.backward_parameters == type_of<scaled, 70>.backward_parameters);
static_assert(type_of<initialized<scaled, initializer::zeros()>, 4>.forward == type_of<scaled, 4>.forward);
static_assert(type_of<derived, 4>.forward != type_of<scaled, 4>.forward);
static_assert(type_of<initialized<derived, initializer::zeros()>, 4>.forward != type_of<scaled, 4>.forward);
static_assert(type_of<linear<3>, 4>.prepare == type_of<linear<5, no_bias>, 9>.prepare);

TEST_CASE("layers of a kind find their buffers at run time") {
  CHECK(check_gradient<scaled, tensor<double, 5>>().passes());
  CHECK(check_gradient<scaled, tensor<double, 33>>().passes());
}

TEST_CASE("a layer that is derived from one of a kind has its own kernels, with its base's sizes") {
  host::layer_fixture<derived, tensor<float, 5>> t(2, 3);
  t.randomize(1);
  t.forward();
  CHECK(t.out[0].get(0) == 7);
  CHECK(t.out[0].get(6) == doctest::Approx(t.in[0].get(6) * t.parameters[0].get(t.first_of(1) + 1)));
}
