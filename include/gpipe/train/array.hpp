#pragma once

#include <string>
#include <string_view>

#include <gpipe/core/error.hpp>
#include <gpipe/model/graph.hpp>

namespace gpipe::detail {

/// The layer, if the network has it; else throws `error`.
GPIPE_COLD inline int known_layer(const network& net, int layer) {
  if (layer < 0 || layer >= net.layer_count)
    throw_error({"the model has no layer ", layer}, {"layers are 0 to ", net.layer_count - 1}, {.layer_index = layer});
  return layer;
}
/// The location of an error in a layer.
GPIPE_COLD inline location location_of(const network& net, int layer) {
  return {.layer = std::string(net.type_of(layer).name), .layer_index = layer};
}

constexpr const char* name_of(array_kind kind) { return kind == array_kind::parameter ? "parameter" : "state"; }

/// The array of a layer with this name. Throws `error`, which lists the names that the layer has.
GPIPE_COLD inline named_array find_array(const layer_type& r, int layer, std::string_view name, array_kind kind) {
  const bool trained = kind == array_kind::parameter;
  const parameter* const list = trained ? r.parameters : r.state;
  const int count = trained ? r.parameter_count : r.state_count;
  std::string known;
  for (int i = 0; i < count; ++i) {
    if (list[i].name == name) return {layer, i, kind};
    known.append(known.empty() ? "" : ", ").append(list[i].name);
  }
  throw_error({"the layer has no ", name_of(kind), " \"", name, "\""},
              {trained ? "its parameters: " : "its state: ", known.empty() ? "none" : known},
              {.layer = std::string(r.name), .layer_index = layer});
}

}  // namespace gpipe::detail
