#pragma once

#include <string>
#include <vector>

#include <gpipe/model/path.hpp>
#include <gpipe/plan/memory/memory_kind.hpp>
#include <gpipe/plan/memory/optimizer_arrays.hpp>
#include <gpipe/train/checkpoint/stored_array.hpp>

namespace gpipe::detail {

GPIPE_COLD GPIPE_INLINE std::vector<stored_array> model_arrays(const network& net) {
  std::vector<stored_array> all;
  for_each_array(net, [&](const named_array& which) {
    all.push_back({.name = path_of(net, which),
                   .location = locate(net, which),
                   .extents = description_of(net, which).extents,
                   .type = net.type_of(which.layer_index).type,
                   .copy = net.owner(which) != which});
  });
  return all;
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
