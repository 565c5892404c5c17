// optimize: kernels

#include <gpipe/layer/linear/linear.hpp>

#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <type_traits>
#include <vector>

#include <gpipe/tools/testing/layer_fixture.hpp>

#include "support/larger_error.hpp"

using namespace gpipe;
using namespace gpipe::detail;

using head = bound<linear<10>, tensor<float, 5, 64>>;
static_assert(std::is_same_v<head::output, tensor<float, 5, 10>>);
static_assert(head::parameters[0].extents == shape{10, 64} && head::parameters[1].extents == shape{10});
static_assert(head::cost.forward == 2 * 5 * 64 * 10 + 50 && head::cost.backward_input == 2 * 5 * 64 * 10);
static_assert(head::keeps.input && !head::keeps.output);

using without = bound<linear<10, no_bias>, tensor<float, 5, 64>>;
static_assert(without::parameters.size() == 1 && without::parameters[0].extents == shape{10, 64});
static_assert(without::cost.forward == 2 * 5 * 64 * 10 && without::derived[0].size == head::derived[0].size);

namespace {

template <class T, int K, int N>
void agrees_with_plain_loops(int samples) {
  constexpr int rows = 3;
  host::layer_fixture<linear<N>, tensor<T, rows, K>> t(samples, samples + 1);
  t.randomize(7);
  t.refresh();
  t.forward();
  t.backward_input();
  t.backward_parameters();
  const auto at = [](int row, int column, int width) { return static_cast<std::size_t>(row * width + column); };
  const auto weight = [&](int n, int k) { return t.parameters[0].get(at(n, k, K)); };
  const auto gradient = [&](std::size_t parameter, std::size_t i) {
    return t.gradients[0].get(t.first_of(parameter) + i);
  };
  const double tolerance = sizeof(T) == 4 ? 1e-5 : 1e-13;
  double worst = 0;
  const auto compare = [&](double got, double want) {
    worst = larger_error(worst, std::fabs(got - want) / (1 + std::fabs(want)));
  };
  for (int row = 0; row < rows * samples; ++row) {
    for (int n = 0; n < N; ++n) {
      double y = t.parameters[0].get(t.first_of(1) + static_cast<std::size_t>(n));
      for (int k = 0; k < K; ++k) y += t.in[0].get(at(row, k, K)) * weight(n, k);
      compare(t.out[0].get(at(row, n, N)), y);
    }
    for (int k = 0; k < K; ++k) {
      double dx = 0;
      for (int n = 0; n < N; ++n) dx += t.out_gradient[0].get(at(row, n, N)) * weight(n, k);
      compare(t.in_gradient[0].get(at(row, k, K)), dx);
    }
  }
  for (int n = 0; n < N; ++n) {
    double db = 0;
    for (int row = 0; row < rows * samples; ++row) db += t.out_gradient[0].get(at(row, n, N));
    compare(gradient(1, static_cast<std::size_t>(n)), db);
    for (int k = 0; k < K; ++k) {
      double dw = 0;
      for (int row = 0; row < rows * samples; ++row)
        dw += t.out_gradient[0].get(at(row, n, N)) * t.in[0].get(at(row, k, K));
      compare(gradient(0, at(n, k, K)), dw);
    }
  }
  CHECK(worst < tolerance);
  CHECK(t.overrun().empty());
}

// Records which products were prepared, with how many rows, and whether each product that runs was prepared.
struct recorder {
  using product = std::array<int, 3>;
  mutable std::vector<product> prepared, prepared_transposed;
  mutable int unprepared = 0, products = 0;

  template <class T>
  void prepare_multiply(int max_rows, int n, int k) const {
    prepared.push_back({n, k, max_rows});
  }
  template <class T>
  void prepare_multiply_transposed(int m, int n, int max_rows) const {
    prepared_transposed.push_back({m, n, max_rows});
  }
  void look_up(const std::vector<product>& list, int first, int second, int rows) const {
    ++products;
    for (const product& p : list)
      if (p[0] == first && p[1] == second && rows <= p[2]) return;
    ++unprepared;
  }
  void multiply(int rows, int n, int k, const float*, const float*, float*, bool) const {
    look_up(prepared, n, k, rows);
  }
  void multiply_plus(int rows, int n, int k, const float*, const float*, const float*, float*) const {
    look_up(prepared, n, k, rows);
  }
  void multiply_transposed(int m, int n, int rows, const float*, const float*, float*) const {
    look_up(prepared_transposed, m, n, rows);
  }
  template <class F>
  void columns(std::ptrdiff_t, std::ptrdiff_t, F, float*) const {}
};

}  // namespace

TEST_CASE_TEMPLATE("all three products agree with plain loops", T, float, double) {
  for (const int samples : {1, 2, 11}) {
    agrees_with_plain_loops<T, 5, 3>(samples);
    agrees_with_plain_loops<T, 33, 40>(samples);
    agrees_with_plain_loops<T, 64, 32>(samples);
  }
}

TEST_CASE("prepare prepares every product that the kernels compute") {
  using layer = linear<40>::on<tensor<float, 3, 7>>;
  host::layer_fixture<linear<40>, tensor<float, 3, 7>> t(2, 2);
  const recorder context;
  layer::prepare(context, 2);
  const operands<bound<linear<40>, tensor<float, 3, 7>>> a(t.call());
  layer::forward(context, a);
  layer::backward_input(context, a);
  layer::backward_parameters(context, a);
  CHECK(context.products == 3);
  CHECK(context.unprepared == 0);
}

TEST_CASE_TEMPLATE("without a bias all else has the bits of a linear layer with a bias of 0", T, float, double, bf16) {
  host::layer_fixture<linear<34>, tensor<T, 2, 9>> with(3, 4);
  host::layer_fixture<linear<34, no_bias>, tensor<T, 2, 9>> without_bias(3, 4);
  with.randomize(7);
  without_bias.randomize(7);
  for (std::size_t i = 0; i < 34; ++i) with.parameters[0].set(with.first_of(1) + i, 0);
  const auto run = [](auto& t) { t.refresh(), t.forward(), t.backward_input(), t.backward_parameters(); };
  run(with);
  run(without_bias);
  for (std::size_t i = 0; i < 3 * 2 * 34; ++i) CHECK(with.out[0].get(i) == without_bias.out[0].get(i));
  CHECK(with.in_gradient[0].bits() == without_bias.in_gradient[0].bits());
  for (std::size_t i = 0; i < 34 * 9; ++i) CHECK(with.gradients[0].get(i) == without_bias.gradients[0].get(i));
}

TEST_CASE("the name of a linear layer says that it has no bias") {
  CHECK(head::name == "linear<10>");
  CHECK(without::name == "linear<10, gpipe::no_bias>");
}
