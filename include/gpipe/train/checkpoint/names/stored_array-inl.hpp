#pragma once

#include <algorithm>
#include <cstddef>
#include <set>
#include <string>
#include <vector>

#include <gpipe/core/error.hpp>
#include <gpipe/core/text/quoted.hpp>
#include <gpipe/model/path.hpp>
#include <gpipe/plan/memory/array_location.hpp>
#include <gpipe/plan/memory/memory_kind.hpp>
#include <gpipe/train/checkpoint/names/stored_array.hpp>

namespace gpipe::detail {

/// Whether each element of a layer's only output depends on the input at the same position alone, and on parameters of
/// that position, such as a norm's weight.
GPIPE_COLD inline bool keeps_positions(const layer_type& r) {
  if (r.inputs != 1 || r.outputs != 1 || r.in[0].size != r.out[0].size || r.out_extents[0].rank != 1) return false;
  const auto is_vector = [&](const parameter& array) {
    return array.extents.rank == 1 && array.extents.size() == r.in[0].size;
  };
  return std::all_of(r.parameters, r.parameters + r.parameter_count, is_vector) &&
         std::all_of(r.state, r.state + r.state_count, is_vector);
}
/// The pixels of the feature map that was flattened to this value, or that a later layer makes from it; 1: there is
/// none.
GPIPE_COLD inline int pixels_before(const network& net, int value) {
  for (int l = net.values[value].writer; l >= 0; l = net.values[net.reads_value(l, 0)].writer) {
    const layer_type& r = net.type_of(l);
    if (r.pixels > 1 && r.out_extents[0].rank == 1) return r.pixels;
    if (!keeps_positions(r)) break;
  }
  return 1;
}
GPIPE_COLD inline int pixels_after(const network& net, int value) {
  const gpipe::detail::value& v = net.values[value];
  for (int i = 0; i < v.readers; ++i) {
    const int l = net.reads[net.readers[v.first_reader + i]].layer_index;
    const layer_type& r = net.type_of(l);
    const int found = r.pixels > 1 && r.out_extents[0].rank == 3 ? r.pixels
                      : keeps_positions(r)                       ? pixels_after(net, net.layers[l].first_write)
                                                                 : 1;
    if (found > 1) return found;
  }
  return 1;
}
/// Sets how PyTorch's order of an array differs.
GPIPE_COLD inline void find_torch_order(const network& net, const named_array& array, stored_array& stored) {
  const layer_type& r = net.type_of(array.layer_index);
  const parameter& description = description_of(net, array);
  stored.outputs_last = description.first.outputs_last && description.extents.rank >= 3;
  if (r.inputs != 1 || r.outputs != 1 || description.extents.rank > 2 || description.extents.rank < 1) return;
  const int in = net.reads_value(array.layer_index, 0), out = net.layers[array.layer_index].first_write;
  if (keeps_positions(r)) {
    stored.row_pixels = (std::max)(pixels_before(net, in), pixels_after(net, out));
    return;
  }
  // A linear layer: its weight's columns are its inputs, and the rows of weight and bias its outputs.
  if (r.out_extents[0].rank != 1 || r.parameter_count == 0 || r.parameters[0].extents.rank != 2 ||
      r.parameter_count > 2 || static_cast<std::size_t>(r.parameters[0].extents.extents[0]) != r.out[0].size ||
      static_cast<std::size_t>(r.parameters[0].extents.extents[1]) != r.in[0].size)
    return;
  if (description.extents.extents[0] == r.parameters[0].extents.extents[0]) stored.row_pixels = pixels_after(net, out);
  if (description.extents.rank == 2) stored.column_pixels = pixels_before(net, in);
}

GPIPE_COLD GPIPE_INLINE std::vector<stored_array> model_arrays(const network& net) {
  std::vector<stored_array> arrays;
  for_each_array(net, [&](const named_array& array) {
    if (uses_part(net, array)) return;
    arrays.push_back({.name = path_of(net, array),
                      .location = locate(net, array),
                      .extents = description_of(net, array).extents,
                      .type = net.type_of(array.layer_index).type,
                      .copy = net.owner(array) != array});
    find_torch_order(net, array, arrays.back());
  });
  return arrays;
}

GPIPE_COLD GPIPE_INLINE std::vector<std::string> frozen_paths(const network& net, const std::string& text,
                                                              const std::string& file) {
  std::set<std::string> known;
  for_each_array(net, [&](const named_array& array) {
    if (array.kind == array_kind::parameter) known.insert(path_of(net, array));
  });
  std::vector<std::string> paths;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = (std::min)(text.find('\n', begin), text.size());
    paths.push_back(text.substr(begin, end - begin));
    if (!known.contains(paths.back()))
      throw_error({"gpipe.frozen names ", detail::quoted(paths.back()), ", which the model does not have"},
                  {"load another checkpoint"}, {.file = file});
    begin = end + 1;
  }
  return paths;
}

GPIPE_COLD GPIPE_INLINE std::vector<stored_array> optimizer_state(const network& net, const plan_options& options) {
  std::vector<stored_array> arrays;
  for_each_array(net, [&](const named_array& array) {
    if (array.kind != array_kind::parameter || net.owner(array) != array) return;
    const auto put = [&](const std::string& name, const array_location& location, const shape& extents) {
      if (extents.size() > 0)
        arrays.push_back({path_of(net, array) + '.' + name, location, extents, net.type_of(array.layer_index).type});
    };
    each_optimizer_array(net, options, array,
                         [&](const optimizer_array& kept) { put(kept.name, kept.location, kept.extents); });
    if (options.average_weights)
      put("average", locate(net, array).in(memory_kind::averages), description_of(net, array).extents);
  });
  return arrays;
}

}  // namespace gpipe::detail
