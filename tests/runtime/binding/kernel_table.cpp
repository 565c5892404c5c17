// compiled: alone
// sanitizers: address

#include <gpipe/runtime/binding/kernel_table.hpp>

#include <doctest/doctest.h>

#include <gpipe/device/host/host.hpp>
#include <gpipe/layer/activation/relu.hpp>
#include <gpipe/layer/linear/linear.hpp>
#include <gpipe/layer/shape/reshape.hpp>

#include "support/layers.hpp"

using namespace gpipe;
using namespace gpipe::detail;
using namespace laws;

namespace {

struct toy {
  template <class T>
  void copy(std::ptrdiff_t n, const T* from, T* into) const {
    for (std::ptrdiff_t i = 0; i < n; ++i) into[i] = from[i];
  }
};

struct fused {
  template <class In>
  struct on;
  template <class T, int N>
  struct on<tensor<T, N>> {
    using output = tensor<T, N>;
    static constexpr parameter parameters[] = {{"weight", {N}}};
    static constexpr parameter state[] = {{"average", {N}}};
    static constexpr buffer derived[] = {{"packed", N, dtype_of<T>}};
    static void forward(const auto&, const auto& a) { a.out()[0] = 1; }
    static void backward_input(const auto&, const auto&) {}
    static void backward_parameters(const auto&, const auto&) {}
    static void backward(const auto&, const auto&) {}
    static void update_state(const auto&, const auto&) noexcept {}
    static void refresh(const auto&, const auto&) noexcept {}
    static void prepare(const auto&, int) {}
  };
};

}  // namespace

// A device's own kernels for a layer.
template <>
struct gpipe::kernels<fused::on<tensor<float, 8>>, toy> : fused::on<tensor<float, 8>> {
  static void forward(const toy&, const auto& a) { a.out()[0] = 2; }
};

namespace {

struct net : model<input<float, 8>, reshape<8>, repeat<3, halve, join>, fused, signs, next> {};
constexpr const kernel_row* rows = kernels_of<net, toy>;

}  // namespace

TEST_CASE("each row of the network has a row of kernels, null for those that its layer does not need") {
  REQUIRE(network_of<net>.type_count == 6);
  CHECK(network_of<net>.types[3].name.find("fused") != std::string_view::npos);
  for (int r = 0; r < 6; ++r) CHECK((rows[r].forward != nullptr));
  CHECK((rows[6].forward == nullptr));
  CHECK((rows[1].backward_input != nullptr));
  CHECK((rows[1].backward_parameters == nullptr));
  CHECK((rows[1].backward == nullptr));
  CHECK((rows[1].update_state == nullptr));
  CHECK((rows[1].refresh == nullptr));
  CHECK((rows[1].prepare == nullptr));
  CHECK((rows[3].backward_parameters != nullptr));
  CHECK((rows[3].backward != nullptr));
  CHECK((rows[3].update_state != nullptr));
  CHECK((rows[3].refresh != nullptr));
  CHECK((rows[3].prepare != nullptr));
  CHECK((rows[5].backward_input == nullptr));  // integers
}

TEST_CASE("a view copies in forward and in backward") {
  const float x[2][8] = {{1, 2, 3}, {4}};
  float y[2][8] = {}, dx[2][8] = {};
  call c;
  c.samples = 2;
  c.in[0] = reinterpret_cast<const std::byte*>(x);
  c.out[0] = reinterpret_cast<std::byte*>(y);
  rows[0].forward(toy{}, c);
  CHECK(y[0][2] == 3);
  CHECK(y[1][0] == 4);
  c.out_gradient[0] = reinterpret_cast<const std::byte*>(x);
  c.in_gradient[0] = reinterpret_cast<std::byte*>(dx);
  rows[0].backward_input(toy{}, c);
  CHECK(dx[1][0] == 4);
}

TEST_CASE("a specialization for a device replaces the layer's own kernels") {
  float y[8] = {};
  call c;
  c.samples = 1;
  c.out[0] = reinterpret_cast<std::byte*>(y);
  rows[3].forward(toy{}, c);
  CHECK(y[0] == 2);
}

namespace {

/// Its parameter part hides that of linear for several micro-batches.
struct own_part {
  template <class In>
  struct on : linear<4>::on<In> {
    static void backward_parameters(const auto&, const auto&) {}
  };
};
struct derived : model<input<float, 4>, linear<4>, own_part, relu> {};

}  // namespace

TEST_CASE("a derived layer with its own parameter part does not use its base's for several micro-batches") {
  const kernel_row* of = kernels_of<derived, host::context>;
  const auto takes_several = [&](int row) { return of[row].backward_parameters_of_group != nullptr; };
  CHECK(takes_several(0));
  CHECK_FALSE(takes_several(1));
  CHECK_FALSE(takes_several(2));
}
