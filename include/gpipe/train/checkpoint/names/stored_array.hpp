#pragma once

#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <span>
#include <string>
#include <vector>

#include <gpipe/core/config.hpp>
#include <gpipe/model/path.hpp>
#include <gpipe/plan/memory/array_location.hpp>
#include <gpipe/plan/options/plan_options.hpp>

namespace gpipe::detail {

/// The order of an array's axes in memory and in a file. A weight of a convolution, and a weight of a linear layer that
/// reads a flattened feature map, whose columns are pixels and channels:
///
///     in memory   [height x width][inputs][outputs]       [outputs][pixels][channels]
///     in PyTorch  [outputs][inputs][height x width]       [outputs][channels][pixels]
class axis_order {
 public:
  static constexpr int max_axes = 4;

  /// The same order in both.
  axis_order() = default;
  /// The extents of the axes in memory, and the numbers of these axes in the order of the file.
  axis_order(std::initializer_list<std::size_t> extents, std::initializer_list<int> in_file);

  std::size_t extent(int axis) const { return extents_[axis]; }
  std::size_t size() const { return extents_[0] * extents_[1] * extents_[2] * extents_[3]; }
  bool same() const { return axes_ <= 1; }
  /// The order with memory and file exchanged.
  axis_order inverse() const;
  bool operator==(const axis_order&) const = default;

  /// Copies elements from the file's order to memory's, `element` bytes each: 1, 2, 4 or 8. `source` is the whole
  /// array; `target` gets the indices `first` to `first + count` (excluded) of the first axis in memory.
  void take(const std::byte* source, std::size_t element, std::size_t first, std::size_t count,
            std::byte* target) const;
  /// The same for all elements, in blocks of whole rows of at most `block_bytes`, or of one row. Calls
  /// `visit(offset, bytes)` for each block.
  template <class Visit>
  void take_blocks(const std::byte* source, std::size_t element, std::size_t block_bytes, const Visit& visit) const {
    const std::size_t rows = extents_[0], row_bytes = size() / rows * element,
                      block_rows = (std::min)((std::max)(block_bytes / row_bytes, std::size_t{1}), rows);
    std::vector<std::byte> block(block_rows * row_bytes);
    for (std::size_t row = 0; row < rows; row += block_rows) {
      const std::size_t count = (std::min)(block_rows, rows - row);
      take(source, element, row, count, block.data());
      visit(row * row_bytes, std::span<const std::byte>(block).first(count * row_bytes));
    }
  }

 private:
  int axes_ = 0;                               // without axes of one element
  std::size_t extents_[max_axes]{1, 1, 1, 1};  // in memory
  int in_file_[max_axes]{0, 1, 2, 3};          // the k-th axis in the file is this axis in memory
};

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
