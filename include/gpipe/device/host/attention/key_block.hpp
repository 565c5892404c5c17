#pragma once

#include <algorithm>
#include <bit>

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
