#pragma once

#include <cstddef>

#include <gpipe/model/graph.hpp>
#include <gpipe/plan/memory/memory_kind.hpp>

namespace gpipe {

/// Where an array lies: in a block of a layer's memory, and where there. In any cut it is the same.
///
///     block `index` of a `kind`:  | before: `at` bytes | `bytes` of the array | ... |
struct array_location {
  memory_kind kind = memory_kind::parameters;
  int layer_index = -1;  ///< of a tied parameter its owner's
  int index = 0;         ///< of several blocks of a kind, such as moments
  std::size_t at = 0, bytes = 0;

  constexpr bool operator==(const array_location&) const = default;

  /// `count` bytes of it, from its byte `first` on.
  constexpr array_location part(std::size_t first, std::size_t count) const {
    return {kind, layer_index, index, at + first, count};
  }
  /// What lies at the same bytes of a block of another kind: of a parameter its gradient, moment or average.
  constexpr array_location in(memory_kind other, int block = 0) const { return {other, layer_index, block, at, bytes}; }
};

namespace detail {

/// The location of a parameter or of a part of the state. A tied parameter is where its owner's is, or the rows of it
/// that the layer uses.
GPIPE_COLD constexpr array_location locate(const network& net, const named_array& which) {
  const named_array owner = net.owner(which);
  const layer_type& r = net.type_of(owner.layer_index);
  const std::size_t bytes = description_of(net, which).extents.size() * bytes_of(r.type);
  if (owner.kind == array_kind::state)
    return {memory_kind::state, owner.layer_index, 0, r.state_bytes(owner.index), bytes};
  return {memory_kind::parameters, owner.layer_index, 0,
          net.own_bytes(owner.layer_index, owner.index) + net.owner_offset(which.layer_index, which.index), bytes};
}

/// Calls with the location of every parameter, a tied one once, and of every part of a layer's state, in model order.
template <class Call>
constexpr void each_value(const network& net, Call&& call) {
  for_each_array(net, [&](const named_array& which) {
    if (net.owner(which) == which) call(locate(net, which));
  });
}
constexpr std::size_t value_bytes(const network& net) {
  std::size_t sum = 0;
  each_value(net, [&](const array_location& value) { sum += value.bytes; });
  return sum;
}

}  // namespace detail

}  // namespace gpipe
