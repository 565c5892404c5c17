#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <gpipe/core/build_mode.hpp>
#include <gpipe/core/text/suggestion.hpp>
#include <gpipe/model/path_tree.hpp>

namespace gpipe {

/// What a layer has by name: `parameters`, which are trained, or `state`.
enum class array_kind : std::uint8_t { parameter, state };

namespace detail {

/// A parameter of a slot, or a part of its state, by its index in the layer's list.
struct named_array {
  int slot = -1, index = 0;
  array_kind kind = array_kind::parameter;
};

/// The path of a layer, such as "h.0.ln_1". That of the addition at the end of a residual is the residual's.
std::string path_of(const network& net, int slot);

/// The path of a parameter or a part of the state, such as "h.0.ln_1.weight".
std::string path_of(const network& net, const named_array& which);

/// The array with a path; throws `error`, with the path that was probably meant, if the model has none.
named_array find_path(const network& net, std::string_view path);

/// The same if the array is of this kind: an error says so if it is not.
named_array find_path(const network& net, std::string_view path, array_kind kind);

constexpr const parameter& description_of(const network& net, const named_array& which) {
  const row& r = net.row_of(which.slot);
  return which.kind == array_kind::parameter ? r.parameters[which.index] : r.state[which.index];
}

/// Calls `visit(named_array)` for the parameters and then the state of each slot, in model order. A tied parameter has
/// a path at each use; the values are those of its owner.
template <class Visit>
void for_each_array(const network& net, Visit visit) {
  for (int l = 0; l < net.slot_count; ++l) {
    const row& r = net.row_of(l);
    for (int i = 0; i < r.parameter_count; ++i) visit(named_array{l, i, array_kind::parameter});
    for (int i = 0; i < r.state_count; ++i) visit(named_array{l, i, array_kind::state});
  }
}

}  // namespace detail

}  // namespace gpipe

#if !GPIPE_COMPILED
#include <gpipe/model/path-inl.hpp>
#endif
