#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <gpipe/core/build_mode.hpp>
#include <gpipe/model/path.hpp>
#include <gpipe/plan/memory/array_location.hpp>
#include <gpipe/plan/options/plan_options.hpp>
#include <gpipe/train/checkpoint/names/transpose.hpp>

namespace gpipe::detail {

// change: checkpoint contents; an array
/// An array that a checkpoint stores, and its location in an executor.
struct stored_array {
  std::string name;  ///< in the file: "h.0.ln_1.weight", and of a moment "h.0.ln_1.weight.moment.0"
  array_location location{};
  shape extents{};
  dtype type = dtype::float32;
  bool copy = false;  ///< a further name of a tied parameter
  /// How PyTorch's order differs: the weight in memory is {height, width, inputs, outputs} or {width, inputs, outputs};
  /// or its rows, or its columns, belong to a flattened feature map with this number of pixels.
  bool outputs_last = false;
  int row_pixels = 1, column_pixels = 1;
  axis_order order{};  ///< in the file; so are `extents`

  bool same_in_torch() const { return !outputs_last && row_pixels == 1 && column_pixels == 1; }
};

/// The parameters and the state of a model, in model order, as `state_dict` of the equal torch module lists them. Each
/// tied layer lists its shared parameters under its own names, but not the rows of another layer's array, such as a
/// head's slice: the owner lists these.
std::vector<stored_array> model_arrays(const network& net);

/// The names of parameters in a text of `checkpoint_facts::frozen`. Throws if the model has no such parameter.
std::vector<std::string> frozen_paths(const network& net, const std::string& text, const std::string& file);

// assumes: one parameter type
/// The optimizer's arrays of each parameter, in model order: moments, arrays of a tensor rule, the moving average.
/// A tied parameter has one of each.
std::vector<stored_array> optimizer_state(const network& net, const plan_options& options);

}  // namespace gpipe::detail

#if !GPIPE_COMPILED
#include <gpipe/train/checkpoint/names/stored_array-inl.hpp>
#endif
