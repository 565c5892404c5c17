#pragma once

#include <cstddef>
#include <cstdint>

#include <gpipe/layer/contract/bound.hpp>

namespace gpipe {

/// One row of the weight for each token, an integer below `Vocabulary`: PyTorch's Embedding.
///
///     input tensor<int32, ..., N>, output tensor<float, ..., N, Width>, weight {Vocabulary, Width}
///
/// No gradient flows back to the tokens. The layer is a description: it has no kernels yet.
template <int Vocabulary, int Width>
struct embedding {
  template <class In>
  struct on;

  template <int... Extents>
    requires(sizeof...(Extents) > 0)
  struct on<tensor<std::int32_t, Extents...>> {
    using output = tensor<float, Extents..., Width>;

    static constexpr parameter parameters[] = {{"weight", {Vocabulary, Width}, initialiser::normal(1)}};
    static constexpr keep keeps{.input = true};
    static constexpr auto elements = static_cast<std::int64_t>(output::size);
    static constexpr work cost{.backward_parameters = elements,
                               .bytes = static_cast<std::int64_t>(2 * sizeof(float)) * elements};
  };
};

}  // namespace gpipe
