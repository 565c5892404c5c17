#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <functional>
#include <span>
#include <vector>

#include <gpipe/core/error.hpp>
#include <gpipe/core/text/quoted.hpp>
#include <gpipe/train/checkpoint/read_arrays.hpp>

namespace gpipe::detail {

template <class T>
GPIPE_COLD void read_array_as(const loaded_array& loaded, const array_visit& visit) {
  constexpr std::size_t block_elements = std::size_t{1} << 16;  // stay in the cache until they are copied
  const std::size_t elements = loaded.array.extents.size();
  if (elements == 0) return;
  const axis_order& order = loaded.array.order;
  if (order.same()) {
    std::vector<T> block((std::min)(elements, block_elements));
    for (std::size_t offset = 0; offset < elements; offset += block.size()) {
      const std::span<T> values = std::span(block).first((std::min)(block.size(), elements - offset));
      loaded.tensor->read(offset, values);
      visit(offset * sizeof(T), std::as_bytes(values));
    }
    return;
  }
  const std::size_t rows = order.extent(0), row = elements / rows,
                    block_rows = (std::min)((std::max)(block_elements / row, std::size_t{1}), rows);
  std::vector<T> values(elements), block(block_rows * row);
  loaded.tensor->read(0, std::span(values));
  const auto bytes = std::as_writable_bytes(std::span(block));
  for (std::size_t r = 0; r < rows; r += block_rows) {
    const std::size_t count = (std::min)(block_rows, rows - r);
    order.take(std::as_bytes(std::span(values)).data(), sizeof(T), r, count, bytes.data());
    visit(r * row * sizeof(T), bytes.first(count * row * sizeof(T)));
  }
}
GPIPE_COLD GPIPE_INLINE void read_array(const loaded_array& loaded, const array_visit& visit) {
  visit_dtype<double, float>(loaded.array.type, [&]<class T>() { read_array_as<T>(loaded, visit); });
}

GPIPE_COLD inline bool equal_values(const loaded_array& first, const loaded_array& second,
                                    const std::function<void()>& working) {
  std::vector<std::byte> values;
  values.reserve(first.array.location.bytes);
  read_array(first, [&](std::size_t, std::span<const std::byte> block) {
    working();
    values.insert(values.end(), block.begin(), block.end());
  });
  bool equal = true;
  read_array(second, [&](std::size_t offset, std::span<const std::byte> block) {
    working();
    equal = equal && std::memcmp(values.data() + offset, block.data(), block.size()) == 0;
  });
  return equal;
}
GPIPE_COLD GPIPE_INLINE void require_equal_twins(const std::vector<loaded_array>& arrays,
                                                 const std::function<void()>& working) {
  for (const loaded_array& twin : arrays) {
    if (!twin.array.copy) continue;
    for (const loaded_array& first : arrays) {
      const stored_array &a = first.array, &b = twin.array;
      if (a.copy || a.location != b.location) continue;
      if (!equal_values(first, twin, working))
        throw_error({"tensors ", detail::quoted(a.name), " and ", detail::quoted(b.name),
                     " differ, but the model ties them to one array"},
                    {"give both the same values, or load a model that does not tie them"},
                    {.file = twin.tensor->file->path()});
    }
  }
}

}  // namespace gpipe::detail
