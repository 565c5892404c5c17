#pragma once

#include <cstddef>
#include <cstdint>

#include <gpipe/layer/contract/bound.hpp>
#include <gpipe/layer/contract/operands.hpp>

namespace gpipe::detail {

/// The sizes of a kind whose kernels see no more of a tensor than its elements.
struct element_count {
  std::ptrdiff_t elements;  ///< of a sample

  constexpr std::ptrdiff_t of(int samples) const { return samples * elements; }
};

/// What a layer of such a kind declares: its output is an `Edge`. The costs are operations for each element, and the
/// number of tensors that forward reads and writes.
template <class On, class Kind, class Edge, int Forward, int Backward, int Moved>
struct layer_of_elements : of_kind<On, Kind> {
  using output = Edge;
  using T = typename Edge::value_type;
  static constexpr auto elements = static_cast<std::int64_t>(Edge::size);
  static constexpr element_count sizes{elements};
  static constexpr work cost{.forward = Forward * elements,
                             .backward_input = Backward * elements,
                             .bytes = static_cast<std::int64_t>(Moved * sizeof(T)) * elements};
};

}  // namespace gpipe::detail
