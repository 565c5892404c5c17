#include <gpipe/device/cuda/kernels/neighbours.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <type_traits>
#include <vector>

#include <gpipe/device/cuda/cuda.hpp>
#include <gpipe/layer/contract/elements.hpp>

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
template <class T>
std::vector<double> in_double(const std::vector<T>& from) {
  return {from.begin(), from.end()};
}

}  // namespace

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
