#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>
#include <type_traits>

#include <gpipe/core/config.hpp>
#include <gpipe/core/error.hpp>
#include <gpipe/core/tensors/dtype.hpp>
#include <gpipe/device/host/gemm/gemm_tile.hpp>
#include <gpipe/device/host/gemm/transpose.hpp>
#include <gpipe/layer/contract/attention_shape.hpp>

namespace gpipe::host {

// change: an attention mask
/// The keys that a sample's queries see: the first `limit`, and if causal, query i sees only the first i + diagonal
/// + 1.
struct visible_keys {
  int limit, diagonal;
  bool causal;

  /// The number of keys that the query sees.
  int operator()(int query) const { return causal ? std::clamp(query + diagonal + 1, 0, limit) : limit; }
};

/// A block of keys that some query of a block of queries sees. Scores have a row for each key:
///
///                  queries                    rows [0, full) have no mask. The rest is done in strips that begin with
///           0 +---------------+               the first query, rounded down, that sees one of the strip's keys; the
///             |               |               part of a strip under the diagonal is masked. A strip that is cut by the
///     keys    |               |               last key has all queries.
///        full +---+           |
///             | \ |           |
///             +---+---+       |
///                 | \ |       |
///       count     +---+-------+
struct key_block {
  static constexpr int largest = 64, lanes = 16, strip = 8;
  /// The number of queries, up to a multiple of 16.
  static constexpr int padded(int queries) { return (queries + lanes - 1) / lanes * lanes; }

  visible_keys seen;
  int first_query, queries, first, count;

  /// The keys that every query sees.
  int full() const { return std::clamp(seen(first_query) - first, 0, count); }

  /// The number, inside the block, of the first query that sees the key.
  int query_of(int key) const { return seen.causal ? (std::max)(0, first + key - seen.diagonal - first_query) : 0; }

  /// f(key, keys, query) for pieces of the block: `keys` keys from `key` on, a power of two, for the queries from
  /// `query` on, a multiple of `height`, the height of a strip.
  template <int height, class F>
  void each_piece(F f) const {
    const int whole = full() == count ? count : full() / height * height;
    int key = 0;
    for (int keys; key < whole; key += keys) f(key, keys = power_below((std::min)(largest, whole - key)), 0);
    for (; key + height <= count; key += height) f(key, height, query_of(key) / height * height);
    for (int keys; key < count; key += keys) f(key, keys = power_below(count - key), 0);
  }

  /// The rows of 16 queries from `query` on: [0, plain) have no mask, [plain, masked) have one, and the rows
  /// [zeroed, count) are read by products with all queries.
  struct rows {
    int plain, masked, zeroed;
  };
  rows rows_of(int query) const {
    const int plain = std::clamp(seen(first_query + query) - first, 0, count);
    const int last = std::clamp(seen(first_query + query + lanes - 1) - first, 0, count);
    const int masked = (std::min)(count, (last + strip - 1) / strip * strip);
    return {plain, masked, full() == count ? count : (std::max)(masked, count / strip * strip)};
  }

 private:
  static int power_below(int n) { return static_cast<int>(std::bit_floor(static_cast<unsigned>(n))); }
};

}  // namespace gpipe::host

namespace gpipe::host {

/// The blocks of attention's scratch, which is on the stack: at most 176 KiB, whatever the number of queries and
/// keys. Elements of bf16 are converted to float block by block.
template <class T>
struct attention_scratch {
  using number = compute_type<T>;
  static constexpr bool converts = !std::is_same_v<T, number>;

  static constexpr int max_width = 256;
  /// Elements of a block of rows, and of a block of scores.
  static constexpr int rows = (converts ? 16 : 32) * 1024 / static_cast<int>(sizeof(number));
  static constexpr int scores = 16 * 1024 / static_cast<int>(sizeof(number));
  static constexpr int max_queries = scores / key_block::largest;

  /// The height of a block of queries of that width: a multiple of 16.
  static int queries_of(int width) {
    int queries = max_queries;
    while (queries * width > rows) queries /= 2;
    return queries;
  }

  GPIPE_COLD static void require_width(int width) {
    if (width > max_width)
      gpipe::detail::throw_error(
          {"the width of an attention's head is ", width, ", and the host computes at most ", max_width},
          {"choose more heads"});
  }
};

/// `count` rows of the width of a head, in memory or converted.
template <class Number>
struct attention_rows {
  const Number* data;
  int stride;
};

namespace detail {

/// The beginning of row 0 of a head; its rows have the stride of `strides`.
template <class T>
T* head_of(T* array, const attention_shape::strides& strides, int sample, int head) {
  return array + sample * strides.sample + head * strides.head;
}

/// Rows a multiple of 1024 bytes apart share few sets of the nearest cache: a copy of them that is used several times
/// pays, even for a stride of 3 KiB (a sixth of the time of backward with 4 heads of width 64).
template <class T>
bool rows_collide(const attention_shape::strides& strides) {
  return strides.row * static_cast<std::ptrdiff_t>(sizeof(T)) % 1024 == 0;
}

/// The stride of rows that a product reads or writes: their own, or the width if they are copied.
constexpr int stride_of(const attention_shape::strides& strides, int width, bool copied) {
  return copied ? width : static_cast<int>(strides.row);
}

/// Rows from memory: in place, or copied into `room`.
template <class T, class Number>
attention_rows<Number> rows_in(const T* source, std::ptrdiff_t stride, int count, int width, bool copied,
                               Number* room) {
  if constexpr (std::is_same_v<T, Number>)
    if (!copied) return {source, static_cast<int>(stride)};
  for (int row = 0; row < count; ++row) copy(width, source + row * stride, room + offset(row, width));
  return {room, width};
}

/// target[column][row] = source[row][column], with zeros for the rows from `count` up to a multiple of 16.
template <class Number>
GPIPE_OUT_OF_LINE void transpose_rows(const attention_rows<Number>& source, int count, int width, Number* target,
                                      int target_stride) {
  const int whole = count / 8 * 8, filled = key_block::padded(count);
  transpose(width, whole, source.data, source.stride, target, target_stride);
  for (int column = 0; column < width && whole < filled; ++column)
    for (int row = whole; row < filled; ++row)
      target[offset(column, target_stride) + row] =
          row < count ? source.data[offset(row, source.stride) + column] : Number(0);
}

/// Zeros in `count` rows.
template <class T>
void zero_rows(int count, int width, T* target, std::ptrdiff_t stride) {
  for (int row = 0; row < count; ++row)
    std::memset(target + row * stride, 0, sizeof(T) * static_cast<std::size_t>(width));
}

}  // namespace detail

}  // namespace gpipe::host
