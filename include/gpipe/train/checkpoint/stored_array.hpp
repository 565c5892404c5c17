#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <gpipe/core/build_mode.hpp>
#include <gpipe/model/path.hpp>
#include <gpipe/plan/memory/array_location.hpp>
#include <gpipe/plan/options/plan_options.hpp>

namespace gpipe::detail {

/// An array that a checkpoint stores, and where an executor has it.
struct stored_array {
  std::string name;  ///< in the file: "h.0.ln_1.weight", and of a moment "h.0.ln_1.weight.moment.0"
  array_location location{};
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
