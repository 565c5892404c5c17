#pragma once

#include <cstddef>
#include <string>

#include <gpipe/core/descriptions/tensor_rule.hpp>
#include <gpipe/model/graph.hpp>
#include <gpipe/plan/memory/memory_kind.hpp>
#include <gpipe/plan/options/plan_options.hpp>

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

/// An array that an optimizer keeps for one parameter, of the parameter's type.
struct optimizer_array {
  std::string name;  ///< "moment.0", or a tensor rule's name for it, such as "row"
  tensor_extents extents{};
  array_location location{};
};

namespace detail {

/// Bytes of a layer's arrays before the arrays of its parameter number `index`; without a number, of all parameters
/// that it owns.
///
///     arrays of a layer:  | parameter 0: row | column | square | sums | parameter 1: row | ...
constexpr std::size_t arrays_before(const network& net, int layer_index, const tensor_rule_memory& rule, int index) {
  const layer_type& layer = net.type_of(layer_index);
  std::size_t bytes = 0;
  for (int p = 0; p < index; ++p)
    if (net.owns(layer_index, p)) bytes += rule.bytes(layer.parameters[p].extents, layer.type);
  return bytes;
}
constexpr std::size_t arrays_before(const network& net, int layer_index, const tensor_rule_memory& rule) {
  return arrays_before(net, layer_index, rule, net.type_of(layer_index).parameter_count);
}

/// Calls `visit(optimizer_array)` for each array that the optimizer keeps for a parameter: moments, then arrays of a
/// tensor rule. If a layer uses only some rows of another layer's parameter, the moments belong to these rows, but a
/// tensor rule's arrays to the whole parameter.
template <class Visit>
void each_optimizer_array(const network& net, const plan_options& options, const named_array& parameter,
                          Visit&& visit) {
  const named_array owner = net.owner(parameter);
  const shape& extents = description_of(net, owner).extents;
  for (int i = 0; i < options.optimizer_moments; ++i)
    visit(optimizer_array{"moment." + std::to_string(i), description_of(net, parameter).extents,
                          locate(net, parameter).in(memory_kind::moments, i)});
  const tensor_rule_memory* const rule = options.tensor_rule;
  if (rule == nullptr) return;
  std::size_t offset = arrays_before(net, owner.layer_index, *rule, owner.index);
  for (int k = 0; k < rule->arrays; ++k) {
    const tensor_array kept = rule->array(extents, k);
    const std::size_t bytes = kept.extents.size() * bytes_of(net.type_of(owner.layer_index).type);
    visit(optimizer_array{kept.name, kept.extents, {memory_kind::arrays, owner.layer_index, 0, offset, bytes}});
    offset += aligned(bytes);
  }
}

}  // namespace detail

}  // namespace gpipe
