#pragma once

#include <cstddef>

#include <gpipe/core/descriptions/tensor_rule.hpp>
#include <gpipe/model/graph.hpp>

namespace gpipe::detail {

/// Bytes of a slot's arrays before those of its parameter number `index`; without a number, of all its parameters.
///
///     arrays of a slot:  | parameter 0: row | column | square | sums | parameter 1: row | ...
constexpr std::size_t arrays_before(const row& layer, const tensor_rule_memory& rule, int index) {
  std::size_t bytes = 0;
  for (int p = 0; p < index; ++p) bytes += rule.bytes(layer.parameters[p].extents, layer.type);
  return bytes;
}
constexpr std::size_t arrays_before(const row& layer, const tensor_rule_memory& rule) {
  return arrays_before(layer, rule, layer.parameter_count);
}

/// Bytes of a slot's parameters before its parameter number `index`, in each flat array.
constexpr std::size_t parameters_before(const row& layer, int index) {
  std::size_t bytes = 0;
  for (int p = 0; p < index; ++p) bytes += aligned(layer.parameters[p].extents.size() * bytes_of(layer.type));
  return bytes;
}

}  // namespace gpipe::detail
