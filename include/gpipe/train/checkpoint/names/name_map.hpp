#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace gpipe {

/// The order of elements in a safetensors file, where PyTorch's differs from gpipe's order in memory.
///
///     array                                  gpipe                            pytorch
///     weight of a convolution                {height, width, in, out}         {out, in, height, width}
///     columns of `linear` after `flatten`    pixels, and channels of a pixel  channels, and pixels of a channel
///     rows of `linear` before a feature map  the same                         the same
///     norms between such layers              the same                         the same
enum class file_layout : std::uint8_t {
  automatic,  ///< a save: PyTorch's. A load: the layout that the file names or its shapes show; else it is refused
  pytorch,
  gpipe,
};

/// An array of the model, and its tensors in a file. In names * is any text without a dot; the i-th star is
/// the same text in all names.
///
///     {.file = {"h.*.attn.c_attn.weight"}, .model = "h.*.attn.in_proj_weight", .transposed = true}
///     {.file = {"layers.*.q.weight", "layers.*.k.weight", "layers.*.v.weight"}, .model = "h.*.attn.in_proj_weight"}
struct name_rule {
  std::vector<std::string> file{};  ///< one tensor, or several: the array's rows, in this order
  std::string model{};
  /// Each tensor is {inputs, outputs} where the array is {outputs, inputs}; or, of a convolution, PyTorch's {outputs,
  /// inputs, height, width}, whatever the file's layout is.
  bool transposed = false;
  std::vector<int> row_shares{};  ///< rows of several tensors, as a proportion such as {4, 1, 1}; none: equal
  bool prefixed = true;           ///< the names in the file have the prefix, too

  bool operator==(const name_rule&) const = default;
};

/// The names and layouts of a file that another program writes or reads. The first rule for an array is taken; an array
/// without a rule has the same name and layout in both. A rule may be for arrays that a model lacks.
struct name_map {
  std::vector<name_rule> rules{};
  std::vector<std::string> ignored{};  ///< of tensors that a load does not need, such as "h.*.attn.bias"
  /// Prefixes of the file's names. A load takes the longest one that a name begins with; a save writes the first.
  std::vector<std::string> prefixes{};
  /// The file has a tied parameter once, by its name in the first layer. A load takes the other names, too.
  bool tied_once = false;

  bool operator==(const name_map&) const = default;
};

/// The arrays of a file that fit a model, by name and shape. The names are those in the file.
struct load_report {
  std::vector<std::string> loaded{};
  std::vector<std::string> missing{};     ///< in the model alone
  std::vector<std::string> unexpected{};  ///< in the file alone
  std::vector<std::string> misshaped{};   ///< in both: "0.weight (file 8 x 4, model 8 x 5)"
};

}  // namespace gpipe
