#pragma once

#include <string>
#include <string_view>

#include <gpipe/core/config.hpp>
#include <gpipe/core/text/suggestion.hpp>
#include <gpipe/model/path_tree.hpp>

namespace gpipe {

namespace detail {

/// The path of a layer, such as "h.0.ln_1". The addition at the end of a residual has the residual's path.
std::string path_of(const network& net, int layer);

/// The path of a parameter or a part of the state, such as "h.0.ln_1.weight".
std::string path_of(const network& net, const named_array& array);

/// The array with a path; throws `error`, with the path that was probably meant, if the model has none.
named_array find_path(const network& net, std::string_view path);

/// The same, but throws `error` if the array is not of this kind.
named_array find_path(const network& net, std::string_view path, array_kind kind);

}  // namespace detail

}  // namespace gpipe

#if !GPIPE_COMPILED
#include <gpipe/model/path-inl.hpp>
#endif
