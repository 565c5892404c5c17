#pragma once

#include <concepts>
#include <cstddef>

#include <gpipe/core/descriptions/optimizer.hpp>
#include <gpipe/core/tensors/dtype.hpp>
#include <gpipe/core/tensors/tensor.hpp>

namespace gpipe {

/// The maximum number of arrays that a tensor rule keeps per tensor, in addition to its moments.
inline constexpr int max_tensor_arrays = 4;

/// The extents of a parameter: `rank`, `extents[0]` to `extents[rank - 1]`, and `size()`, their product.
using tensor_extents = detail::shape;

/// An array that an optimizer keeps for one tensor, of the parameters' type: `{"row", {64}}`. Extent 0: none.
struct tensor_array {
  const char* name = "";
  tensor_extents extents{0};
};

/// One tensor in an update: a parameter of one layer, with all that the optimizer keeps for it. All addresses are the
/// device's memory. The arrays start at zero.
template <class T>
struct tensor_operands {
  tensor_extents extents{};
  T* parameter = nullptr;
  const T* gradient = nullptr;  ///< the *sum* over samples
  T* moment[max_moments]{};
  T* array[max_tensor_arrays]{};
  double* sums = nullptr;  ///< scratch of this update, such as sums
};

namespace detail {

/// The sizes of a tensor rule's arrays, for plans. The same functions run in the compiler.
struct tensor_rule_memory {
  int arrays = 0;
  tensor_array (*array)(const tensor_extents& tensor, int k) = nullptr;
  std::size_t (*sums)(const tensor_extents& tensor) = nullptr;

  /// Bytes before the k-th array of a tensor; k = arrays: before the sums. Each array is aligned.
  constexpr std::size_t before(const tensor_extents& tensor, dtype type, int k) const {
    std::size_t bytes = 0;
    for (int i = 0; i < k; ++i) bytes += aligned(array(tensor, i).extents.size() * bytes_of(type));
    return bytes;
  }
  constexpr std::size_t bytes(const tensor_extents& tensor, dtype type) const {
    return before(tensor, type, arrays) + aligned(sums(tensor) * sizeof(double));
  }
};

}  // namespace detail

// change: an optimizer; with a rule for a whole tensor
/// An optimizer whose rule sees a whole tensor. It has `learning_rate` and `moments` as every optimizer, and, in place
/// of a rule for one element:
///
///     static constexpr int arrays = 2;                                               // at most max_tensor_arrays
///     static constexpr tensor_array array(const tensor_extents& tensor, int k);      // the k-th array of a tensor
///     static constexpr std::size_t sums(const tensor_extents& tensor);               // doubles for one update
///     template <class C, class T>
///     void update(const C& c, const tensor_operands<T>& operands, const update_terms& terms) const;
///
/// `update` enqueues operations on a device's context, like a layer's kernels: `each`, `rows`, `columns`, `sum`,
/// `fill`. It reads no result, because the device may not have computed it yet: sums are written into `operands.sums`,
/// and later operations read them there. It cannot fail. `adafactor` is an example.
template <class Optimizer>
concept tensor_rule = requires(const tensor_extents& tensor) {
  { Optimizer::arrays } -> std::convertible_to<int>;
  { Optimizer::array(tensor, 0) } -> std::same_as<tensor_array>;
  { Optimizer::sums(tensor) } -> std::convertible_to<std::size_t>;
};

namespace detail {

template <tensor_rule Optimizer>
inline constexpr tensor_rule_memory tensor_memory_of{Optimizer::arrays, &Optimizer::array, &Optimizer::sums};

/// Null if the rule is for one element.
template <class Optimizer>
constexpr const tensor_rule_memory* tensor_memory() {
  if constexpr (tensor_rule<Optimizer>) {
    static_assert(Optimizer::arrays >= 0 && Optimizer::arrays <= max_tensor_arrays,
                  "gpipe: an optimizer has more arrays than gpipe::max_tensor_arrays");
    return &tensor_memory_of<Optimizer>;
  } else {
    return nullptr;
  }
}

}  // namespace detail

}  // namespace gpipe
