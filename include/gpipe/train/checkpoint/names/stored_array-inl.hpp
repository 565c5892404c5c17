#pragma once

#include <algorithm>
#include <cstddef>
#include <set>
#include <string>
#include <vector>

#include <gpipe/core/error.hpp>
#include <gpipe/core/text/quoted.hpp>
#include <gpipe/model/path.hpp>
#include <gpipe/plan/memory/memory_kind.hpp>
#include <gpipe/plan/memory/optimizer_arrays.hpp>
#include <gpipe/train/checkpoint/names/stored_array.hpp>

namespace gpipe::detail {

/// Whether an element of a layer's only output is made of the element at the same position alone, and of numbers of
/// that position, such as a norm's weight.
GPIPE_COLD inline bool keeps_positions(const layer_type& r) {
  if (r.inputs != 1 || r.outputs != 1 || r.in[0].size != r.out[0].size || r.out_extents[0].rank != 1) return false;
  const auto is_vector = [&](const parameter& one) {
    return one.extents.rank == 1 && one.extents.size() == r.in[0].size;
  };
  return std::all_of(r.parameters, r.parameters + r.parameter_count, is_vector) &&
         std::all_of(r.state, r.state + r.state_count, is_vector);
}
/// The pixels of the feature map whose flattened elements a value has, or from which a later layer makes a feature map
/// again; 1: there is none.
GPIPE_COLD inline int pixels_before(const network& net, int value) {
  for (int l = net.values[value].writer; l >= 0; l = net.values[net.reads_value(l, 0)].writer) {
    const layer_type& r = net.type_of(l);
    if (r.pixels > 1 && r.out_extents[0].rank == 1) return r.pixels;
    if (!keeps_positions(r)) break;
  }
  return 1;
}
GPIPE_COLD inline int pixels_behind(const network& net, int value) {
  const gpipe::detail::value& v = net.values[value];
  for (int i = 0; i < v.readers; ++i) {
    const int l = net.reads[net.readers[v.first_reader + i]].layer_index;
    const layer_type& r = net.type_of(l);
    const int found = r.pixels > 1 && r.out_extents[0].rank == 3 ? r.pixels
                      : keeps_positions(r)                       ? pixels_behind(net, net.layers[l].first_write)
                                                                 : 1;
    if (found > 1) return found;
  }
  return 1;
}
/// Sets how PyTorch's order of an array differs.
GPIPE_COLD inline void find_torch_order(const network& net, const named_array& which, stored_array& of) {
  const layer_type& r = net.type_of(which.layer_index);
  const parameter& it = description_of(net, which);
  of.outputs_last = it.first.outputs_last && it.extents.rank >= 3;
  if (r.inputs != 1 || r.outputs != 1 || it.extents.rank > 2 || it.extents.rank < 1) return;
  const int in = net.reads_value(which.layer_index, 0), out = net.layers[which.layer_index].first_write;
  if (keeps_positions(r)) {
    of.row_pixels = (std::max)(pixels_before(net, in), pixels_behind(net, out));
    return;
  }
  // A linear layer: its weight's columns are its inputs, and the rows of weight and bias its outputs.
  if (r.out_extents[0].rank != 1 || r.parameter_count == 0 || r.parameters[0].extents.rank != 2 ||
      r.parameter_count > 2 || static_cast<std::size_t>(r.parameters[0].extents.extents[0]) != r.out[0].size ||
      static_cast<std::size_t>(r.parameters[0].extents.extents[1]) != r.in[0].size)
    return;
  if (it.extents.extents[0] == r.parameters[0].extents.extents[0]) of.row_pixels = pixels_behind(net, out);
  if (it.extents.rank == 2) of.column_pixels = pixels_before(net, in);
}

GPIPE_COLD GPIPE_INLINE std::vector<stored_array> model_arrays(const network& net) {
  std::vector<stored_array> all;
  for_each_array(net, [&](const named_array& which) {
    if (uses_part(net, which)) return;
    all.push_back({.name = path_of(net, which),
                   .location = locate(net, which),
                   .extents = description_of(net, which).extents,
                   .type = net.type_of(which.layer_index).type,
                   .copy = net.owner(which) != which});
    find_torch_order(net, which, all.back());
  });
  return all;
}

GPIPE_COLD GPIPE_INLINE std::vector<std::string> frozen_paths(const network& net, const std::string& text,
                                                              const std::string& file) {
  std::set<std::string> known;
  for_each_array(net, [&](const named_array& which) {
    if (which.kind == array_kind::parameter) known.insert(path_of(net, which));
  });
  std::vector<std::string> paths;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = (std::min)(text.find('\n', at), text.size());
    paths.push_back(text.substr(at, end - at));
    if (!known.contains(paths.back()))
      throw_error({"gpipe.frozen names ", detail::quoted(paths.back()), ", which the model does not have"},
                  {"load another checkpoint"}, {.file = file});
    at = end + 1;
  }
  return paths;
}

GPIPE_COLD GPIPE_INLINE std::vector<stored_array> optimizer_state(const network& net, const plan_options& options) {
  std::vector<stored_array> all;
  for_each_array(net, [&](const named_array& which) {
    if (which.kind != array_kind::parameter || net.owner(which) != which) return;
    const auto put = [&](const std::string& name, const array_location& location, const shape& extents) {
      if (extents.size() > 0)
        all.push_back({path_of(net, which) + '.' + name, location, extents, net.type_of(which.layer_index).type});
    };
    each_optimizer_array(net, options, which,
                         [&](const optimizer_array& kept) { put(kept.name, kept.location, kept.extents); });
    if (options.average_weights)
      put("average", locate(net, which).in(memory_kind::averages), description_of(net, which).extents);
  });
  return all;
}

}  // namespace gpipe::detail
