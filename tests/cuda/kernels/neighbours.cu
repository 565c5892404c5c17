#include <gpipe/cuda/kernels/neighbours.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <type_traits>
#include <utility>
#include <vector>

#include <gpipe/core/descriptions/lion.hpp>
#include <gpipe/core/descriptions/optimizer.hpp>
#include <gpipe/core/descriptions/rmsprop.hpp>
#include <gpipe/cuda/cuda.hpp>
#include <gpipe/device/host/host.hpp>
#include <gpipe/layer/contract/elements.hpp>
#include <gpipe/runtime/binding/optimizer_update.hpp>

#include "support/on_gpu.hpp"

using namespace gpipe;

namespace {

template <class T>
struct twice {
  const T* x;
  T* y;
  GPIPE_HOST_DEVICE void operator()(std::ptrdiff_t i) const { y[i] = 2 * compute_type<T>(x[i]); }
};
/// Arrays of two types, and one that may be null.
template <class T>
struct sum_of_three {
  const T *a, *b;
  const double* c;
  T* y;
  GPIPE_HOST_DEVICE void operator()(std::ptrdiff_t i) const {
    const double sum = static_cast<double>(a[i]) + static_cast<double>(b[i]);
    y[i] = static_cast<compute_type<T>>(sum + c[i]);
  }
};
template <class T>
struct half_of {
  const T *x, *unused;
  T *y, *unwritten;
  GPIPE_HOST_DEVICE void operator()(std::ptrdiff_t i) const { y[i] = compute_type<T>(x[i]) / 2; }
};
template <class T>
struct exchange {
  static constexpr bool updates = true;
  T *x, *y;
  GPIPE_HOST_DEVICE void operator()(std::ptrdiff_t i) const {
    const T was = x[i];
    x[i] = y[i];
    y[i] = was;
  }
};

template <class T>
std::vector<T> counted_from(int first, int size) {
  std::vector<T> found;
  for (int i = 0; i < size; ++i) found.push_back(static_cast<compute_type<T>>((first + i) % 251));
  return found;
}
constexpr std::size_t cells(int count) { return static_cast<std::size_t>(count); }
template <class T>
std::vector<double> in_double(const std::vector<T>& from) {
  return {from.begin(), from.end()};
}

/// Its rule writes the number of each element.
struct numbering {
  double learning_rate = 1;
  static constexpr int moments = 1;
  template <class T>
  struct rule_for {
    update_operands<T> of;
    GPIPE_HOST_DEVICE void operator()(std::ptrdiff_t i) const { of.parameter[i] = static_cast<T>(i); }
  };
  template <class T>
  rule_for<T> rule(const update_operands<T>& of, const update_terms&) const {
    return {of};
  }
};

/// Updates n parameters twice, in arrays that begin behind `apart` elements: the gradient behind `of_gradient`.
template <class T, class Optimizer, bool OneByOne>
std::vector<T> updated(const gpipe::cuda::context& there, const Optimizer& optimizer, int n, int apart,
                       int of_gradient) {
  const auto numbers = [](int size, double from) {
    std::vector<T> found;
    for (int i = 0; i < size; ++i) found.push_back(static_cast<T>(1.5 + std::sin(from + i)));
    return found;
  };
  const on_gpu<T> parameter(there, numbers(n + apart, 1)), gradient(there, numbers(n + of_gradient, 2));
  const on_gpu<T> first(there, numbers(n + apart, 3)), second(there, std::vector<T>(cells(n + apart), T(0.5)));
  const T* const gradients = gradient + of_gradient;
  const update_operands<T> of{parameter + apart, gradients, {first + apart, second + apart}};
  const auto rule = optimizer.template rule<T>(of, {3, 0.1, 0.5});
  static_assert(decltype(rule)::elementwise);
  for (int step = 0; step < 2; ++step) {
    if constexpr (OneByOne) there.each(n, rule);
    else there.each_parameter<Optimizer::moments>(n, rule);
  }
  auto all = parameter.back();
  for (const auto* moment : {&first, &second})
    for (const T x : moment->back()) all.push_back(x);
  return all;
}

}  // namespace

TEST_CASE_TEMPLATE("an optimizer gives the same from neighbours and one by one", T, float, double) {
  const gpipe::cuda::context there;
  const auto check = [&](const auto& optimizer) {
    using kind = std::remove_cvref_t<decltype(optimizer)>;
    for (const int n : {1, 3, 4, 7, 8, 9, 2051})
      for (const auto& [apart, of_gradient] : {std::pair{0, 0}, {4, 4}, {1, 1}, {0, 1}, {3, 0}}) {
        CAPTURE(n);
        CAPTURE(apart);
        CAPTURE(of_gradient);
        CHECK(updated<T, kind, false>(there, optimizer, n, apart, of_gradient) ==
              updated<T, kind, true>(there, optimizer, n, apart, of_gradient));
      }
  };
  check(sgd{.momentum = 0.9, .nesterov = true});
  check(adam{});
  check(adamw{});
  check(lion{});
  check(rmsprop{.momentum = 0.5});
  check(rmsprop_tf{});
}

TEST_CASE("a block updates several vectors of parameters and the rest") {
  const gpipe::cuda::context there;
  constexpr int n = 4 * 300 + 3;
  const on_gpu<float> p(there, counted_from<float>(1, n)), q(there, counted_from<float>(1, n));
  const on_gpu<float> g(there, counted_from<float>(2, n));
  const on_gpu<float> m(there, std::vector<float>(n)), k(there, std::vector<float>(n));
  const auto rule = [&](float* parameter, float* moment) {
    return sgd{}.rule<float>({parameter, g, {moment}}, {1, 0.1, 1});
  };
  using rule_type = decltype(rule(p, m));
  CHECK(gpipe::cuda::detail::whole_vectors_of_parameters<1>(n, rule(p, m)) == n / 4);
  CHECK(gpipe::cuda::detail::whole_vectors_of_parameters<1>(n, rule(p + 1, m)) == 0);
  CHECK(gpipe::cuda::detail::whole_vectors_of_parameters<1>(n, rule(p, m + 1)) == 0);
  CHECK(gpipe::cuda::detail::whole_vectors_of_parameters<0>(n, rule(p, m + 1)) == n / 4);
  gpipe::cuda::launch<std::ptrdiff_t, std::ptrdiff_t, rule_type>(
      there.queue(), dim3(1), dim3(gpipe::cuda::team::threads), gpipe::cuda::detail::over_parameters<1, rule_type>, n,
      n / 4, rule(p, m));
  there.each(n, rule(q, k));
  CHECK(p.back() == q.back());
  CHECK(m.back() == k.back());
}

TEST_CASE("a rule that does not say that it is elementwise has the elements' own numbers") {
  const gpipe::cuda::context there;
  constexpr int n = 1003;
  const on_gpu<float> p(there, std::vector<float>(n)), g(there, std::vector<float>(n)), m(there, std::vector<float>(n));
  const auto bytes = [](const on_gpu<float>& at) { return reinterpret_cast<std::byte*>(at.data()); };
  const gpipe::detail::optimizer_update update = gpipe::detail::optimizer_update::of<gpipe::cuda::context>(numbering{});
  update(there, dtype::float32, {n * sizeof(float), bytes(p), bytes(g), {bytes(m)}}, {});
  const auto found = p.back();
  int wrong = 0;
  for (int i = 0; i < n; ++i) wrong += found[static_cast<std::size_t>(i)] == static_cast<float>(i) ? 0 : 1;
  CHECK(wrong == 0);
}

TEST_CASE_TEMPLATE("a function of elements gives the same from neighbours and one by one", T, float, double, bf16) {
  static_assert(exchange<T>::updates);
  const gpipe::cuda::context there;
  for (const int n : {1, 3, 7, 8, 9, 64, 2047, 2051})
    for (const int apart : {0, 1, 8}) {  // elements before the arrays: 1 is not aligned, and 8 is
      CAPTURE(n);
      CAPTURE(apart);
      const int size = n + apart;
      const on_gpu<T> a(there, counted_from<T>(1, size)), b(there, counted_from<T>(2, size));
      const on_gpu<double> c(there, counted_from<double>(3, size));
      const on_gpu<T> y(there, counted_from<T>(0, size)), z(there, counted_from<T>(0, size));
      const auto untouched = counted_from<double>(0, apart);
      const auto check = [&](auto wanted) {
        auto want = untouched;
        for (int i = 0; i < n; ++i) want.push_back(wanted(apart + i));
        CHECK(in_double(y.back()) == want);
      };
      gpipe::detail::each_element(there, n, twice<T>{a + apart, y + apart});
      check([](int i) { return (i + 1) % 251 * 2.0; });
      gpipe::detail::each_element(there, n, sum_of_three<T>{a + apart, b + apart, c + apart, y + apart});
      const auto rounded = [](double x) { return static_cast<double>(T(static_cast<compute_type<T>>(x))); };
      check([&](int i) { return rounded((i + 1) % 251 + (i + 2) % 251 + (i + 3) % 251); });
      gpipe::detail::each_element(there, n, half_of<T>{a + apart, nullptr, y + apart, nullptr});
      check([](int i) { return (i + 1) % 251 / 2.0; });
      gpipe::detail::each_element(there, n, exchange<T>{y + apart, z + apart});
      check([](int i) { return i % 251 * 1.0; });
      const auto exchanged = in_double(z.back());
      CHECK(exchanged.back() == size % 251 / 2.0);
    }
  gpipe::detail::each_element(there, 0, twice<T>{nullptr, nullptr});
  there.finish();
}

TEST_CASE("a block works on several vectors and on the rest") {
  const gpipe::cuda::context there;
  constexpr int n = 5003;
  const on_gpu<bf16> x(there, counted_from<bf16>(1, n)), y(there, counted_from<bf16>(0, n));
  const twice<bf16> f{x, y};
  CHECK(gpipe::cuda::detail::whole_vectors(n, f) == n / 8);
  CHECK(gpipe::cuda::detail::whole_vectors(n, twice<bf16>{x + 1, y}) == 0);
  CHECK(gpipe::cuda::detail::whole_vectors(n, twice<float>{nullptr, nullptr}) == n / 4);
  gpipe::cuda::launch<std::ptrdiff_t, std::ptrdiff_t, twice<bf16>>(
      there.queue(), dim3(1), dim3(gpipe::cuda::team::threads), gpipe::cuda::detail::over_elements<twice<bf16>>, n,
      n / 8, f);
  std::vector<double> want;
  for (int i = 0; i < n; ++i) want.push_back((i + 1) % 251 * 2.0);
  CHECK(in_double(y.back()) == want);
}
