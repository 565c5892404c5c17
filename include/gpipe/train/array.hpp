#pragma once

#include <string>
#include <string_view>
#include <utility>

#include <gpipe/model/graph.hpp>

namespace gpipe::detail {

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
GPIPE_ONCE inline std::pair<std::size_t, std::size_t> find_array(const row& r, int slot, std::string_view name,
                                                                 dtype type, const listing& what) {
  const auto here = [&] { return place{.layer = std::string(r.name), .slot = slot}; };
  std::string known;
  std::size_t at = 0;
  for (int p = 0; p < r.*what.count; ++p) {
    const parameter& found = (r.*what.list)[p];
    if (found.name == name) {
      if (r.type != type) refuse({what.one, " \"", name, "\" is ", name_of(r.type)}, {"read it as that"}, here());
      return {at, found.extents.size()};
    }
    known.append(known.empty() ? "" : ", ").append(found.name);
    at += aligned(found.extents.size() * bytes_of(r.type));
  }
  refuse({"the layer has no ", what.one, " \"", name, "\""}, {"its ", what.all, ": ", known.empty() ? "none" : known},
         here());
}

}  // namespace gpipe::detail
