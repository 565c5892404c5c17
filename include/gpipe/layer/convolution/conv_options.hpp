#pragma once

#include <string_view>

#include <gpipe/core/tensors/feature_map.hpp>
#include <gpipe/layer/contract/convolution_shape.hpp>
#include <gpipe/layer/contract/description.hpp>
#include <gpipe/layer/contract/window.hpp>

namespace gpipe {

// change: a convolution option
/// Options of `conv2d` and `conv_transpose2d`, with PyTorch's names and defaults.
struct conv_options {
  height_width stride = 1;
  height_width padding = 0;   ///< pixels of 0 around the image, or `same_padding`
  height_width dilation = 1;  ///< from one pixel of the window to the next
  int groups = 1;             ///< output channels see only the input channels of their group
  bool bias = true;
  height_width output_padding = 0;  ///< of `conv_transpose2d`, below its stride: rows below, columns to the right
};

namespace detail {

constexpr short_name name_of_convolution(std::string_view kind, int out, height_width kernel,
                                         const conv_options& options) {
  short_name name;
  name << kind << "<" << out << ", " << kernel;
  add_option(name, "stride", options.stride, 1);
  add_option(name, "dilation", options.dilation, 1);
  add_option(name, "groups", options.groups, 1);
  name << ">";
  return name;
}

/// The channels of a group; all of them if the number of groups is a mistake, which another assertion reports.
constexpr int of_group(int channels, int groups) { return groups > 0 ? channels / groups : channels; }

constexpr bool groups_divide(int groups, int in, int out) {
  return groups >= 1 && in % groups == 0 && out % groups == 0;
}

}  // namespace detail

}  // namespace gpipe
