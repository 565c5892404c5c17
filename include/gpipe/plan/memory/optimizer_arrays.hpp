#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <gpipe/core/descriptions/tensor_rule.hpp>
#include <gpipe/model/graph.hpp>
#include <gpipe/plan/memory/array_location.hpp>
#include <gpipe/plan/memory/memory_kind.hpp>
#include <gpipe/plan/options/plan_options.hpp>

namespace gpipe {

/// An array that an optimizer keeps for one parameter, of the parameter's type.
struct optimizer_array {
  std::string name;  ///< "moment.0", or a tensor rule's name for it, such as "row"
  tensor_extents extents{};
  array_location location{};
};

namespace detail {

/// Bytes of a layer's arrays before those of its own parameter number `index`; without a number, of all its own.
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

/// The arrays that the optimizer keeps for a parameter: moments, then those of a tensor rule.
GPIPE_COLD inline std::vector<optimizer_array> optimizer_arrays(const network& net, const plan_options& options,
                                                                const named_array& which) {
  const named_array owner = net.owner(which);
  const shape& extents = description_of(net, owner).extents;
  std::vector<optimizer_array> all;
  for (int i = 0; i < options.optimizer_moments; ++i)
    all.push_back({"moment." + std::to_string(i), extents, locate(net, owner).in(memory_kind::moments, i)});
  if (const tensor_rule_memory* const rule = options.tensor_rule; rule != nullptr) {
    std::size_t at = arrays_before(net, owner.layer_index, *rule, owner.index);
    for (int k = 0; k < rule->arrays; ++k) {
      const tensor_array kept = rule->array(extents, k);
      const std::size_t bytes = kept.extents.size() * bytes_of(net.type_of(owner.layer_index).type);
      all.push_back({kept.name, kept.extents, {memory_kind::arrays, owner.layer_index, 0, at, bytes}});
      at += aligned(bytes);
    }
  }
  return all;
}

}  // namespace detail

}  // namespace gpipe
