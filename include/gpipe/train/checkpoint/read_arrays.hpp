#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include <gpipe/core/build_mode.hpp>
#include <gpipe/record/checkpoint/safetensors_set.hpp>
#include <gpipe/train/checkpoint/names/stored_array.hpp>
#include <gpipe/train/checkpoint/names/transpose.hpp>

namespace gpipe::detail {

/// An array, and the tensor that has its values.
struct loaded_array {
  stored_array array;
  const safetensors_set::tensor_location* tensor;
};

/// Takes bytes of an array, in the type and the layout of the model, from byte `offset` on.
using array_visit = std::function<void(std::size_t offset, std::span<const std::byte> bytes)>;

/// Reads a tensor in blocks, converts it, and passes each block to `visit`. A tensor whose elements have another order
/// in memory is read as a whole.
void read_array(const loaded_array& loaded, const array_visit& visit);

/// Tied layers share one array. Throws if a file has it under two names with different values. `working` is called
/// before each block.
void require_equal_twins(const std::vector<loaded_array>& arrays, const std::function<void()>& working);

}  // namespace gpipe::detail

#if !GPIPE_COMPILED
#include <gpipe/train/checkpoint/read_arrays-inl.hpp>
#endif
