#pragma once

#include <cstddef>
#include <cstdint>

#include <gpipe/layer/contract/bound.hpp>
#include <gpipe/layer/contract/extents.hpp>

namespace gpipe {

/// The last layer of a language model: a linear layer from the last extent to the vocabulary, and the cross-entropy.
///
///     x = in W^T + b,  loss = weight (log sum_j e^x_j - x_label)
///
///     input tensor<T, ..., width>, weight {Vocabulary, width}, bias {Vocabulary}
///
/// Fields: "labels", int32 below `Vocabulary`, and "weights", by default all ones; both have one element per token.
/// Backward reads the input and the logits, and overwrites the logits with their gradient. It has no kernels
/// yet.
template <int Vocabulary>
struct token_head {
  template <class In>
  struct on;

  template <class T, int... Extents>
  requires(sizeof...(Extents) > 0 && detail::is_floating(dtype_of<T>)) struct on<tensor<T, Extents...>> {
    using input = tensor<T, Extents...>;
    using output = bundle<>;
    using number = compute_type<T>;
    static constexpr int width = detail::last_extent<input>, rows = detail::rows_in<input>;
    static constexpr std::size_t logits = std::size_t{rows} * Vocabulary;

    static constexpr parameter parameters[] = {{"weight", {Vocabulary, width}, initialiser::uniform(width)},
                                               {"bias", {Vocabulary}, initialiser::uniform(width)}};
    static constexpr field fields[] = {{"labels", rows, dtype::int32, Vocabulary},
                                       {"weights", rows, dtype_of<number>, 0, true}};
    static constexpr partial partials[] = {"loss", "weight", "correct"};
    static constexpr buffer extras[] = {{"logits", logits, dtype_of<T>}, {"summary", 4 * rows, dtype_of<number>}};
    static constexpr keep keeps{.input = true};

    static constexpr auto elements = static_cast<std::int64_t>(logits);
    static constexpr std::int64_t product = 2 * elements * width;
    static constexpr work cost{.forward = product + 20 * elements,
                               .backward_input = product + 20 * elements,
                               .backward_parameters = product + elements,
                               .bytes = static_cast<std::int64_t>(sizeof(T)) * (rows * width + 2 * elements)};
  };
};

}  // namespace gpipe
