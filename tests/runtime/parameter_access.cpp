// sanitizers: address

#include <gpipe/runtime/parameter_access.hpp>

#include <doctest/doctest.h>

#include <algorithm>

using namespace gpipe;
using namespace gpipe::detail;

namespace {

struct moments {
  double min = 1e9, max = -1e9, mean = 0, deviation = 0;
};
moments moments_of(const initializer& how, std::size_t n) {
  moments m;
  double squares = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const double x = first_value(how, 5, 3, 1, i);
    m.min = (std::min)(m.min, x);
    m.max = (std::max)(m.max, x);
    m.mean += x / static_cast<double>(n);
    squares += x * x / static_cast<double>(n);
  }
  m.deviation = std::sqrt(squares - m.mean * m.mean);
  return m;
}

}  // namespace

TEST_CASE("first values have the range and deviation of their distribution") {
  CHECK(first_value(initializer::zeros(), 1, 2, 3, 4) == 0);
  CHECK(first_value(initializer::ones(), 1, 2, 3, 4) == 1);
  CHECK(first_value(initializer::constant(0.1).of({8, 3}), 1, 2, 3, 4) == 0.1);
  const moments flat = moments_of(initializer::uniform(16, 2.0), 20000);  // in [-1/2, 1/2)
  CHECK(flat.min >= -0.5);
  CHECK(flat.min < -0.499);
  CHECK(flat.max < 0.5);
  CHECK(flat.max > 0.499);
  CHECK(std::abs(flat.mean) < 0.01);
  CHECK(flat.deviation == doctest::Approx(0.5 / std::sqrt(3.0)).epsilon(0.02));
  const moments normal = moments_of(initializer::normal(4), 20000);  // of deviation 1/2
  CHECK(std::abs(normal.mean) < 0.02);
  CHECK(normal.deviation == doctest::Approx(0.5).epsilon(0.02));
  CHECK(normal.max > 1.5);
  CHECK(normal.max < 3);
}

TEST_CASE("a rule takes a parameter's extents, and divides by the root of a number of branches") {
  const moments xavier = moments_of(initializer::xavier(2).of({10, 14}), 20000);  // 2 sqrt(6 / 24) = 1
  CHECK(xavier.min < -0.999);
  CHECK(xavier.min >= -1);
  CHECK(xavier.max > 0.999);
  CHECK(moments_of(initializer::deviation(0.02), 20000).deviation == doctest::Approx(0.02).epsilon(0.02));
  CHECK(moments_of(initializer::deviation(0.02).over_root(16), 20000).deviation ==
        doctest::Approx(0.005).epsilon(0.02));
  CHECK(first_value(initializer::xavier().of({3, 5}).over_root(4), 1, 2, 3, 4) ==
        doctest::Approx(first_value(initializer::xavier().of({3, 5}), 1, 2, 3, 4) / 2).epsilon(1e-15));
  const parameter list[] = {{"weight", {4, 12}, initializer::xavier()}, {"bias", {3}, initializer::uniform(0)}};
  std::vector<double> values;
  for (const int p : {0, 1})
    first_values(dtype::float64, list[p], 5, 3, p, [&](std::size_t, std::size_t bytes, const std::byte* from) {
      values.insert(values.end(), reinterpret_cast<const double*>(from),
                    reinterpret_cast<const double*>(from) + bytes / sizeof(double));
    });
  CHECK(values[1] == first_value(initializer::uniform(16, std::sqrt(6.0)), 5, 3, 0, 1));
  CHECK(values[48] == first_value(initializer::uniform(1), 5, 3, 1, 0));
}

TEST_CASE("a first value depends on seed, layer, parameter and element") {
  const auto of = [](std::uint64_t seed, int layer, int index, std::size_t i) {
    return first_value(initializer::uniform(1), seed, layer, index, i);
  };
  const double x = of(1, 2, 3, 4);
  CHECK(x == of(1, 2, 3, 4));
  CHECK(x != of(9, 2, 3, 4));
  CHECK(x != of(1, 9, 3, 4));
  CHECK(x != of(1, 2, 9, 4));
  CHECK(x != of(1, 2, 3, 9));
}
