#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <gpipe/model/path.hpp>
#include <gpipe/plan/memory/memory_kind.hpp>
#include <gpipe/plan/memory/optimizer_arrays.hpp>
#include <gpipe/plan/options/plan_options.hpp>

namespace gpipe::detail {

/// An array that a checkpoint stores, and where an executor has it.
struct stored_array {
  std::string name;  ///< in the file: "h.0.ln_1.weight", and of a moment "h.0.ln_1.weight.moment.0"
  memory_kind kind = memory_kind::parameters;
  int slot = -1;       ///< of a tied parameter its owner's
  int index = 0;       ///< of a moment
  std::size_t at = 0;  ///< bytes before it in the slot's own block
  shape extents{};
  dtype type = dtype::float32;
  bool copy = false;        ///< a further name of a tied parameter
  bool transposed = false;  ///< the file has the transpose, and `extents` are those in the file

  /// Of a transposed convolution's weight, {outputs, inputs, height, width} in the file: height x width. Else 1.
  std::size_t window() const {
    return transposed && extents.rank == 4
               ? static_cast<std::size_t>(extents.extents[2]) * static_cast<std::size_t>(extents.extents[3])
               : 1;
  }

  std::size_t bytes() const { return extents.size() * bytes_of(type); }
};

/// The parameters and the state of a model, in model order: what `state_dict` of the equal torch module lists. Each
/// tied layer lists its shared parameters under names of its own.
std::vector<stored_array> model_arrays(const network& net);

/// What the optimizer keeps for each parameter, in model order: moments, arrays of a tensor rule, the moving average.
/// A tied parameter has one of each.
std::vector<stored_array> optimizer_state(const network& net, const plan_options& options);

#if GPIPE_BODIES
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
#endif

}  // namespace gpipe::detail
