#pragma once

#include <cstddef>

#include <gpipe/model/graph.hpp>
#include <gpipe/plan/memory/memory_kind.hpp>

namespace gpipe {

// assumes: one parameter type
/// The location of an array in a block of a layer's memory. It is the same in any cut.
///
///     block `index` of a `kind`:  | before: `offset` bytes | `bytes` of the array | ... |
struct array_location {
  memory_kind kind = memory_kind::parameters;
  int layer_index = -1;  ///< the owner's, for a tied parameter
  int index = 0;         ///< among several blocks of a kind, such as moments
  std::size_t offset = 0, bytes = 0;

  constexpr bool operator==(const array_location&) const = default;

  /// `count` bytes of the array, from its byte `first` on.
  constexpr array_location part(std::size_t first, std::size_t count) const {
    return {kind, layer_index, index, offset + first, count};
  }
  /// The same bytes of a block of another kind: the gradient, moment or average of a parameter.
  constexpr array_location in(memory_kind other_kind, int block = 0) const {
    return {other_kind, layer_index, block, offset, bytes};
  }
};

namespace detail {

/// The location of a parameter or of a part of the state. A tied parameter has the location of its owner's, or of the
/// rows that the layer uses.
GPIPE_COLD constexpr array_location locate(const network& net, const named_array& array) {
  const named_array owner = net.owner(array);
  const layer_type& r = net.type_of(owner.layer_index);
  const std::size_t bytes = description_of(net, array).extents.size() * bytes_of(r.type);
  if (owner.kind == array_kind::state)
    return {memory_kind::state, owner.layer_index, 0, r.state_bytes(owner.index), bytes};
  return {memory_kind::parameters, owner.layer_index, 0,
          net.own_bytes(owner.layer_index, owner.index) + net.owner_offset(array.layer_index, array.index), bytes};
}

/// Calls `call(location)` for every parameter, a tied one once, and every part of a layer's state, in model order.
template <class Call>
constexpr void each_value(const network& net, Call&& call) {
  for_each_array(net, [&](const named_array& array) {
    if (net.owner(array) == array) call(locate(net, array));
  });
}
constexpr std::size_t value_bytes(const network& net) {
  std::size_t sum = 0;
  each_value(net, [&](const array_location& value) { sum += value.bytes; });
  return sum;
}

}  // namespace detail

}  // namespace gpipe
