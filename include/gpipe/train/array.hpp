#pragma once

#include <string>
#include <string_view>

#include <gpipe/core/error.hpp>
#include <gpipe/model/graph.hpp>

namespace gpipe::detail {

/// The slot, if the network has it; else throws `error`.
GPIPE_COLD inline int known_slot(const network& net, int slot) {
  if (slot < 0 || slot >= net.slot_count)
    throw_error({"the model has no slot ", slot}, {"slots are 0 to ", net.slot_count - 1}, {.slot = slot});
  return slot;
}
/// Where something is wrong with it.
GPIPE_COLD inline location place_of(const network& net, int slot) {
  return {.layer = std::string(net.row_of(slot).name), .slot = slot};
}

constexpr const char* name_of(array_kind kind) { return kind == array_kind::parameter ? "parameter" : "state"; }

/// The array of a layer that has this name. Throws `error`, with the names that there are.
GPIPE_COLD inline named_array find_array(const row& r, int slot, std::string_view name, array_kind kind) {
  const bool trained = kind == array_kind::parameter;
  const parameter* const list = trained ? r.parameters : r.state;
  const int count = trained ? r.parameter_count : r.state_count;
  std::string known;
  for (int i = 0; i < count; ++i) {
    if (list[i].name == name) return {slot, i, kind};
    known.append(known.empty() ? "" : ", ").append(list[i].name);
  }
  throw_error({"the layer has no ", name_of(kind), " \"", name, "\""},
              {trained ? "its parameters: " : "its state: ", known.empty() ? "none" : known},
              {.layer = std::string(r.name), .slot = slot});
}

}  // namespace gpipe::detail
