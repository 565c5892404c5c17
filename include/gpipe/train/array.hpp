#pragma once

#include <string>
#include <string_view>
#include <utility>

#include <gpipe/model/network.hpp>
#include <gpipe/model/path.hpp>

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

/// What of a layer is listed by name: its parameters, or its state.
struct listing {
  const parameter* row::*list;
  int row::*count;
  const char *one, *all;
};
inline constexpr listing of_parameters{&row::parameters, &row::parameter_count, "parameter", "parameters"},
    of_state{&row::state, &row::state_count, "state", "state"};

/// The array of a layer that has this name: bytes before it in its slot's block, and its elements. Throws `error`, with
/// the names that there are, or if it is of another type.
GPIPE_COLD inline std::pair<std::size_t, std::size_t> find_array(const row& r, int slot, std::string_view name,
                                                                 dtype type, const listing& what) {
  const auto here = [&] { return location{.layer = std::string(r.name), .slot = slot}; };
  std::string known;
  std::size_t at = 0;
  for (int p = 0; p < r.*what.count; ++p) {
    const parameter& found = (r.*what.list)[p];
    if (found.name == name) {
      if (r.type != type) throw_error({what.one, " \"", name, "\" is ", name_of(r.type)}, {"read it as that"}, here());
      return {at, found.extents.size()};
    }
    known.append(known.empty() ? "" : ", ").append(found.name);
    at += aligned(found.extents.size() * bytes_of(r.type));
  }
  throw_error({"the layer has no ", what.one, " \"", name, "\""},
              {"its ", what.all, ": ", known.empty() ? "none" : known}, here());
}

}  // namespace gpipe::detail
