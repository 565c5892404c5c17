// optimize: kernels

#include <gpipe/tools/testing/layer_fixture.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>

#include <gpipe/layer/linear/linear.hpp>
#include <gpipe/layer/loss/softmax_cross_entropy.hpp>

using namespace gpipe;
using namespace gpipe::detail;
using host::guarded_buffer;
using host::layer_fixture;

namespace {

struct sloped {
  template <class In>
  struct on {
    using output = In;
    static constexpr parameter parameters[] = {{"slope", {64}, initializer::constant(3)}, {"bias", {64}}};
    static constexpr void forward(const auto&, const auto&) {}
    static constexpr void backward_input(const auto&, const auto&) {}
    static constexpr void backward_parameters(const auto&, const auto&) {}
  };
};

}  // namespace

TEST_CASE("a guard detects a byte written before, behind or in the padding") {
  guarded_buffer b("b", dtype::float32, 5);
  CHECK(reinterpret_cast<std::uintptr_t>(b.data()) % alignment == 0);
  CHECK(b.intact());
  b.clear();
  CHECK(b.intact());
  SUBCASE("before") { b.data()[-1] = std::byte{0}; }
  SUBCASE("in the padding") { b.data()[20] = std::byte{0}; }
  SUBCASE("behind") { b.data()[127] = std::byte{0}; }
  CHECK_FALSE(b.intact());
}

TEST_CASE("numbers are set and read as double, whatever the type") {
  for (const dtype type : {dtype::float32, dtype::float64, dtype::int32, dtype::uint8}) {
    guarded_buffer b("b", type, 3);
    CHECK((is_floating(type) ? std::isnan(b.get(1)) : b.get(1) == (type == dtype::uint8 ? 255 : -1)));
    b.set(1, 42);
    CHECK(b.get(1) == 42);
    CHECK(b.bytes() == 3 * bytes_of(type));
  }
}

TEST_CASE("a fixture runs a layer with the buffers that it declares") {
  layer_fixture<linear<3>, tensor<float, 2>> t(2, 4);
  t.randomize(1);
  for (std::size_t i = 0; i < 6; ++i) t.parameters[0].set(i, static_cast<double>(i));  // weight {3, 2}
  for (std::size_t i = 0; i < 3; ++i) t.parameters[0].set(t.first_of(1) + i, 10);      // bias
  for (std::size_t i = 0; i < 4; ++i) t.in[0].set(i, i < 2 ? 1 : 2);
  t.refresh();
  t.forward();
  CHECK(t.out[0].get(0) == 11);
  CHECK(t.out[0].get(2) == 19);
  CHECK(t.out[0].get(3) == 12);
  CHECK(std::isnan(t.out[0].get(6)));  // beyond the two samples
  CHECK(t.overrun().empty());
}

TEST_CASE("parameters are around their first values") {
  layer_fixture<sloped, tensor<float, 2>> t(2, 4);
  t.randomize(1);
  for (std::size_t i = 0; i < 64; ++i) {
    CHECK(std::abs(t.parameters[0].get(i) - 3) <= 0.5);
    CHECK(std::abs(t.parameters[0].get(t.first_of(1) + i)) <= 0.5);
  }
}

TEST_CASE("fields stay within their limits") {
  layer_fixture<softmax_cross_entropy, tensor<float, 10>> t(64, 64);
  t.randomize(5);
  bool varied = false;
  for (std::size_t i = 0; i < 64; ++i) {
    const double label = t.fields[0].get(i), weight = t.fields[1].get(i);
    CHECK((0 <= label && label < 10));
    CHECK((0 <= weight && weight < 2));
    varied = varied || label != t.fields[0].get(0);
  }
  CHECK(varied);
}
