#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <initializer_list>
#include <set>
#include <span>
#include <string>
#include <vector>

#include <gpipe/core/config.hpp>
#include <gpipe/core/error.hpp>
#include <gpipe/core/text/quoted.hpp>
#include <gpipe/model/path.hpp>
#include <gpipe/plan/memory/array_location.hpp>
#include <gpipe/plan/memory/memory_kind.hpp>
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

GPIPE_COLD inline axis_order::axis_order(std::initializer_list<std::size_t> extents,
                                         std::initializer_list<int> in_file) {
  int kept[max_axes]{};  // the number of each axis without axes of one element
  for (std::size_t a = 0; a < extents.size(); ++a) {
    kept[a] = axes_;
    if (const std::size_t extent = extents.begin()[a]; extent != 1) extents_[axes_++] = extent;
  }
  int position = 0;
  bool turned = false;
  for (const int a : in_file) {
    if (extents.begin()[a] == 1) continue;
    turned = turned || kept[a] != position;
    in_file_[position++] = kept[a];
  }
  if (!turned) *this = axis_order();
}

GPIPE_COLD inline axis_order axis_order::inverse() const {
  axis_order result = *this;
  for (int k = 0; k < axes_; ++k) {
    result.extents_[k] = extents_[in_file_[k]];
    result.in_file_[in_file_[k]] = k;
  }
  return result;
}

/// target[i][j][k][l] = source[i s0 + j s1 + k s2 + l s3] with strides s, in tiles of the two axes along which `target`
/// and `source` are dense.
template <std::size_t Element>
GPIPE_COLD void take_elements(const std::byte* source, const std::size_t (&extents)[4], const std::size_t (&strides)[4],
                              std::byte* target) {
  constexpr std::size_t tile = 16;  // the lines of a tile stay in the cache for both arrays
  const std::size_t target_strides[4] = {extents[1] * extents[2] * extents[3], extents[2] * extents[3], extents[3], 1};
  int last = 3;
  while (last > 0 && extents[last] == 1) --last;
  int dense = last == 0 ? 1 : 0;  // the axis with the smallest stride other than `last`
  for (int a = 0; a < 4; ++a)
    if (a != last && extents[a] > 1 && (extents[dense] == 1 || strides[a] < strides[dense])) dense = a;
  int outer[2]{}, count = 0;
  for (int a = 0; a < 4; ++a)
    if (a != last && a != dense) outer[count++] = a;
  for (std::size_t i = 0; i < extents[outer[0]]; ++i)
    for (std::size_t j = 0; j < extents[outer[1]]; ++j) {
      const std::byte* const source_part = source + (i * strides[outer[0]] + j * strides[outer[1]]) * Element;
      std::byte* const target_part = target + (i * target_strides[outer[0]] + j * target_strides[outer[1]]) * Element;
      for (std::size_t l0 = 0; l0 < extents[last]; l0 += tile)
        for (std::size_t d0 = 0; d0 < extents[dense]; d0 += tile)
          for (std::size_t d = d0; d < (std::min)(d0 + tile, extents[dense]); ++d)
            for (std::size_t l = l0; l < (std::min)(l0 + tile, extents[last]); ++l)
              std::memcpy(target_part + (d * target_strides[dense] + l * target_strides[last]) * Element,
                          source_part + (d * strides[dense] + l * strides[last]) * Element, Element);
    }
}

GPIPE_COLD inline void axis_order::take(const std::byte* source, std::size_t element, std::size_t first,
                                        std::size_t count, std::byte* target) const {
  std::size_t strides[max_axes]{}, stride = 1;  // in the file
  for (int k = max_axes - 1; k >= 0; stride *= extents_[in_file_[k--]]) strides[in_file_[k]] = stride;
  const std::size_t extents[max_axes] = {count, extents_[1], extents_[2], extents_[3]};
  source += first * strides[0] * element;
  switch (element) {
    case 8:
      return take_elements<8>(source, extents, strides, target);
    case 4:
      return take_elements<4>(source, extents, strides, target);
    case 2:
      return take_elements<2>(source, extents, strides, target);
    default:
      return take_elements<1>(source, extents, strides, target);
  }
}

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

/// The parameters and the state of a model, in model order, as `state_dict` of the equal torch module lists them. Each
/// tied layer lists its shared parameters under its own names, but not the rows of another layer's array, such as a
/// head's slice: the owner lists these.
GPIPE_COLD inline std::vector<stored_array> model_arrays(const network& net) {
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

/// The names of parameters in a text of `checkpoint_facts::frozen`. Throws if the model has no such parameter.
GPIPE_COLD inline std::vector<std::string> frozen_paths(const network& net, const std::string& text,
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

// assumes: one parameter type
/// The optimizer's arrays of each parameter, in model order: moments, arrays of a tensor rule, the moving average.
/// A tied parameter has one of each.
GPIPE_COLD inline std::vector<stored_array> optimizer_state(const network& net, const plan_options& options) {
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
