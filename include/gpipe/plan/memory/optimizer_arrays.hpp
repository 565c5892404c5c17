#pragma once

#include <cstddef>

#include <gpipe/core/descriptions/tensor_rule.hpp>
#include <gpipe/model/graph.hpp>

namespace gpipe::detail {

/// Bytes of a slot's arrays before those of its own parameter number `index`; without a number, of all its own.
///
///     arrays of a slot:  | parameter 0: row | column | square | sums | parameter 1: row | ...
constexpr std::size_t arrays_before(const network& net, int slot, const tensor_rule_memory& rule, int index) {
  const row& layer = net.row_of(slot);
  std::size_t bytes = 0;
  for (int p = 0; p < index; ++p)
    if (net.owns(slot, p)) bytes += rule.bytes(layer.parameters[p].extents, layer.type);
  return bytes;
}
constexpr std::size_t arrays_before(const network& net, int slot, const tensor_rule_memory& rule) {
  return arrays_before(net, slot, rule, net.row_of(slot).parameter_count);
}

}  // namespace gpipe::detail
