#pragma once

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <type_traits>

#include <gpipe/tools/testing/layer_fixture.hpp>

#include "support/reference/feature_maps.hpp"
#include "support/torch_number.hpp"

namespace laws {

namespace detail {

template <class T>
void has_products(const gpipe::host::guarded_buffer& found, std::size_t first, std::size_t count, const double* want) {
  for (std::size_t s = 0; s < reference::feature_maps::streams; ++s) {
    double sum = 0;
    for (std::size_t i = 0; i < count; ++i) sum += found.get(first + i) * torch_number(11 + s, i);
    CAPTURE(s);
    CAPTURE(found.name());
    CHECK(std::fabs(sum - want[s]) <= (std::is_same_v<T, float> ? 3e-5 : 1e-12) * (1 + std::sqrt(count) * 5));
  }
}

template <class Layer, class In>
void is_like_torch(const reference::feature_maps::layer& want) {
  using fixture = gpipe::host::layer_fixture<Layer, In>;
  constexpr int samples = reference::feature_maps::samples;
  using T = typename fixture::value_type;
  fixture t(samples, samples);
  const auto fill = [](gpipe::host::guarded_buffer& into, std::size_t first, std::size_t count, std::size_t stream) {
    for (std::size_t i = 0; i < count; ++i) into.set(first + i, torch_number(stream, i));
  };
  fill(t.in[0], 0, t.in[0].count(), 1);
  fill(t.out_gradient[0], 0, t.out_gradient[0].count(), 2);
  for (std::size_t p = 0; p < fixture::bound::parameters.size(); ++p)
    fill(t.parameters[0], fixture::first_of(p), fixture::bound::parameters[p].extents.size(), 3 + p);
  t.refresh();
  t.forward();
  t.backward();
  CAPTURE(gpipe::detail::type_name<Layer>);
  has_products<T>(t.out[0], 0, t.out[0].count(), want.out);
  has_products<T>(t.in_gradient[0], 0, t.in_gradient[0].count(), want.in_gradient);
  const double* const parameters[] = {want.weight, want.bias};
  for (std::size_t p = 0; p < fixture::bound::parameters.size(); ++p)
    has_products<T>(t.gradients[0], fixture::first_of(p), fixture::bound::parameters[p].extents.size(), parameters[p]);
  CHECK(t.overrun() == "");
}

}  // namespace detail

/// The layers, in this order, give PyTorch's outputs and gradients, in float and in double.
template <class In, class... Layers, std::size_t N>
void are_like_torch(const reference::feature_maps::layer (&want)[N]) {
  static_assert(N == sizeof...(Layers));
  const reference::feature_maps::layer* next = want;
  (detail::is_like_torch<Layers, typename gpipe::detail::converted<In, double>::type>(*next++), ...);
  next = want;
  (detail::is_like_torch<Layers, typename gpipe::detail::converted<In, float>::type>(*next++), ...);
}

}  // namespace laws
