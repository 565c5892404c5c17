// optimize: kernels

#include <gpipe/device/host/gemm/vector.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>

using gpipe::detail::multiply_add;

namespace {

template <class T>
void lanes_are_numbers() {
  using vector = gpipe::host::detail::vector<T>;
  T a[vector::width], b[vector::width], c[vector::width], sums[vector::width];
  for (int l = 0; l < vector::width; ++l)
    a[l] = T(1) / T(3 + l), b[l] = T(1) / T(7 + l), c[l] = -a[l] * b[l];  // what is left is the rounding
  vector::store(vector::multiply_add(vector::load(a), vector::load(b), vector::load(c)), sums);
  for (int l = 0; l < vector::width; ++l) {
    const T alone = multiply_add(a[l], b[l], c[l]);
    CHECK(std::memcmp(&sums[l], &alone, sizeof(T)) == 0);
  }
  vector::store(vector::repeat(T(-0.0)), sums);
  for (const T lane : sums) CHECK((lane == 0 && std::signbit(lane)));
}

}  // namespace

TEST_CASE("each lane of a multiply_add has the bits of a number alone") {
  lanes_are_numbers<float>();
  lanes_are_numbers<double>();
}
