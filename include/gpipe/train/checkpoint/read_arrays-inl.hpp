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
GPIPE_COLD void read_array_as(const loaded_array& from, const array_visit& visit) {
  constexpr std::size_t block_elements = std::size_t{1} << 16;  // stay in the cache until they are copied
  const std::size_t all = from.array.extents.size();
  if (all == 0) return;
  if (!from.array.transposed) {
    std::vector<T> block((std::min)(all, block_elements));
    for (std::size_t at = 0; at < all; at += block.size()) {
      const std::span<T> some = std::span(block).first((std::min)(block.size(), all - at));
      from.tensor->read(at, some);
      visit(at * sizeof(T), std::as_bytes(some));
    }
    return;
  }
  const auto rows = static_cast<std::size_t>(from.array.extents.extents[0]);  // in the file
  const std::size_t columns = all / rows, at_once = (std::max)(block_elements / rows, std::size_t{1});
  std::vector<T> whole(all), block((std::min)(at_once, columns) * rows);
  from.tensor->read(0, std::span(whole));
  const std::size_t window = from.array.window();
  transpose_each(std::as_writable_bytes(std::span(whole)).data(), rows, columns / window, window, sizeof(T));
  const auto from_bytes = std::as_bytes(std::span(whole));
  const auto to_bytes = std::as_writable_bytes(std::span(block));
  for (std::size_t c = 0; c < columns; c += at_once) {
    const std::size_t count = (std::min)(at_once, columns - c);
    transpose_rows(from_bytes.data(), rows, columns, sizeof(T), c, count, to_bytes.data());
    visit(c * rows * sizeof(T), to_bytes.first(count * rows * sizeof(T)));
  }
}
GPIPE_COLD GPIPE_INLINE void read_array(const loaded_array& from, const array_visit& visit) {
  visit_dtype<double, float>(from.array.type, [&]<class T>() { read_array_as<T>(from, visit); });
}

GPIPE_COLD inline bool equal_values(const loaded_array& first, const loaded_array& second,
                                    const std::function<void()>& working) {
  std::vector<std::byte> whole;
  whole.reserve(first.array.location.bytes);
  read_array(first, [&](std::size_t, std::span<const std::byte> some) {
    working();
    whole.insert(whole.end(), some.begin(), some.end());
  });
  bool same = true;
  read_array(second, [&](std::size_t at, std::span<const std::byte> some) {
    working();
    same = same && std::memcmp(whole.data() + at, some.data(), some.size()) == 0;
  });
  return same;
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
