#pragma once

#include <algorithm>
#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

#include <gpipe/core/error.hpp>
#include <gpipe/core/text/quoted.hpp>
#include <gpipe/model/path.hpp>

namespace gpipe {

namespace detail {

/// Follows a path through the tree, for a search that reads no other branch.
class path_search {
 public:
  explicit path_search(const network& net) : net_(net) {}

  // `later`: the number of layers by which the repetitions so far come after the first ones.
  std::optional<named_array> in(int node, std::string_view path, int later) const {
    const path_node& n = net_.paths[node];
    if (n.layer) return array_of(n.first + later, path);
    for (int c = node + 1; c < n.end; c = net_.paths[c].end) {
      std::string_view below = path;
      int repetition = 0;
      if (takes(net_.paths[c], below, repetition))
        if (const auto found = in(c, below, later + repetition * net_.paths[c].layers)) return found;
    }
    return {};
  }

 private:
  static bool takes(const path_node& n, std::string_view& path, int& repetition) {
    if (n.adds == path_part::nothing) return true;
    const std::size_t dot = path.find('.');
    if (dot == path.npos) return false;
    const std::string_view part = path.substr(0, dot);
    path.remove_prefix(dot + 1);
    if (n.adds == path_part::name) return part == n.name;
    int number = -1;
    const auto end = std::from_chars(part.data(), part.data() + part.size(), number);
    if (end.ec != std::errc{} || end.ptr != part.data() + part.size() || (part.size() > 1 && part[0] == '0') ||
        number < 0)
      return false;
    if (n.adds == path_part::index) return number == n.number;
    repetition = number;
    return number < n.number;
  }
  std::optional<named_array> array_of(int layer, std::string_view name) const {
    const layer_type& r = net_.type_of(layer);
    for (int i = 0; i < r.parameter_count; ++i)
      if (name == r.parameters[i].path_name()) return named_array{layer, i, array_kind::parameter};
    for (int i = 0; i < r.state_count; ++i)
      if (name == r.state[i].path_name()) return named_array{layer, i, array_kind::state};
    return {};
  }

  const network& net_;
};

GPIPE_COLD GPIPE_INLINE std::string path_of(const network& net, int layer) {
  std::string path(write_path(net.paths, layer, nullptr), ' ');
  write_path(net.paths, layer, path.data());
  return path;
}

GPIPE_COLD GPIPE_INLINE std::string path_of(const network& net, const named_array& array) {
  std::string path = path_of(net, array.layer_index);
  if (!path.empty()) path += '.';
  return path += description_of(net, array).path_name();
}

GPIPE_COLD GPIPE_INLINE named_array find_path(const network& net, std::string_view path) {
  if (const auto found = path_search(net).in(0, path, 0)) return *found;
  std::string meant, some;
  std::size_t fewest = 1 + (std::min)(path.size() / 3, std::size_t{6});
  int arrays = 0;
  for_each_array(net, [&](const named_array& array) {
    const std::string candidate = path_of(net, array);
    if (const std::size_t distance = letters_apart(path, candidate); distance < fewest)
      fewest = distance, meant = candidate;
    if (++arrays <= 6) some.append(some.empty() ? "" : ", ").append(candidate);
  });
  if (arrays > 6) some += ", ...";
  std::string remedy = "its layers have neither";
  if (!meant.empty()) remedy = concat({"did you mean ", detail::quoted(meant), "?"});
  else if (arrays > 0) remedy = concat({"its paths: ", some});
  throw_error({"the model has no parameter or state at ", detail::quoted(path)}, {remedy});
}

GPIPE_COLD GPIPE_INLINE named_array find_path(const network& net, std::string_view path, array_kind kind) {
  const named_array found = find_path(net, path);
  if (found.kind == kind) return found;
  if (kind == array_kind::parameter)
    throw_error({detail::quoted(path), " is state, which is not trained"}, {"read it by state()"});
  throw_error({detail::quoted(path), " is a parameter"}, {"read it by parameter()"});
}

}  // namespace detail

}  // namespace gpipe
