#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include <gpipe/plan/memory/memory_kind.hpp>
#include <gpipe/train/checkpoint/stored_array.hpp>

namespace gpipe::detail {

GPIPE_COLD GPIPE_INLINE std::vector<stored_array> model_arrays(const network& net) {
  std::vector<stored_array> all;
  std::size_t at = 0;
  for_each_array(net, [&](const named_array& which) {
    const bool trained = which.kind == array_kind::parameter;
    const parameter_place owner =
        trained ? net.owner(which.slot, which.index) : parameter_place{which.slot, which.index};
    stored_array one{.name = path_of(net, which),
                     .kind = trained ? memory_kind::parameters : memory_kind::state,
                     .slot = owner.slot,
                     .at = trained ? net.own_bytes(owner.slot, owner.index) : which.index == 0 ? 0 : at,
                     .extents = description_of(net, which).extents,
                     .type = net.row_of(which.slot).type,
                     .copy = owner.slot != which.slot};
    at = one.at + aligned(one.bytes());
    all.push_back(std::move(one));
  });
  return all;
}

GPIPE_COLD GPIPE_INLINE std::vector<stored_array> optimizer_state(const network& net, const plan_options& options) {
  std::vector<stored_array> all;
  for_each_array(net, [&](const named_array& which) {
    if (which.kind != array_kind::parameter || !net.owns(which.slot, which.index)) return;
    const row& r = net.row_of(which.slot);
    const shape& extents = description_of(net, which).extents;
    const auto put = [&](const std::string& name, memory_kind kind, int index, std::size_t at, const shape& its) {
      if (its.size() > 0)
        all.push_back({path_of(net, which) + '.' + name, kind, which.slot, index, at, its, r.type, false});
    };
    const std::size_t at = net.own_bytes(which.slot, which.index);
    for (int i = 0; i < options.optimizer_moments; ++i)
      put("moment." + std::to_string(i), memory_kind::moments, i, at, extents);
    if (const tensor_rule_memory* const rule = options.tensor_rule; rule != nullptr)
      for (int k = 0; k < rule->arrays; ++k) {
        const tensor_array kept = rule->array(extents, k);
        put(kept.name, memory_kind::arrays, 0,
            arrays_before(net, which.slot, *rule, which.index) + rule->before(extents, r.type, k), kept.extents);
      }
    if (options.average_weights) put("average", memory_kind::averages, 0, at, extents);
  });
  return all;
}

}  // namespace gpipe::detail
