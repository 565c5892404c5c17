#include <gpipe/device/host/thrust_policy.hpp>

#include <doctest/doctest.h>

#include <thrust/for_each.h>
#include <thrust/functional.h>
#include <thrust/iterator/counting_iterator.h>
#include <thrust/transform.h>

#include <vector>

#include <gpipe/tools/testing/gradient_check.hpp>

using namespace gpipe;

namespace {

/// y = x^2, by Thrust's algorithms.
struct square {
  template <class In>
  struct on;
  template <class T, int N>
  struct on<tensor<T, N>> {
    using output = tensor<T, N>;
    static constexpr keep keeps{.input = true};

    struct twice_product {
      GPIPE_HOST_DEVICE T operator()(T x, T dy) const { return 2 * x * dy; }
    };
    static void forward(const auto& context, const auto& a) {
      const auto n = a.samples() * N;
      thrust::transform(thrust_policy(context), a.in(), a.in() + n, a.in(), a.out(), thrust::multiplies<T>{});
    }
    static void backward_input(const auto& context, const auto& a) {
      const auto n = a.samples() * N;
      thrust::transform(thrust_policy(context), a.in(), a.in() + n, a.out_gradient(), a.in_gradient(), twice_product{});
    }
    static void backward_parameters(const auto&, const auto&) {}
  };
};

}  // namespace

TEST_CASE("a layer runs Thrust's algorithms") {
  const auto report = check_gradient<square, tensor<double, 7>>();
  CHECK_MESSAGE(report.passes(), report.where);
}

TEST_CASE("the policy runs in order, on the calling thread") {
  std::vector<int> visited;
  thrust::for_each_n(thrust_policy(host::context{}), thrust::counting_iterator<int>(0), 5,
                     [&visited](int i) { visited.push_back(i); });
  CHECK(visited == std::vector<int>{0, 1, 2, 3, 4});
}
