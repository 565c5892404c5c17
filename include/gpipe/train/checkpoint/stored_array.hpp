#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <gpipe/core/build_mode.hpp>
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

}  // namespace gpipe::detail

#if !GPIPE_COMPILED
#include <gpipe/train/checkpoint/stored_array-inl.hpp>
#endif
