#pragma once

#include <cstddef>
#include <type_traits>

#include <gpipe/core/tensors/dtype.hpp>

namespace gpipe {

/// The columns of a panel in a packed matrix.
inline constexpr int panel_width = 32;

/// Elements of a `rows` x `columns` matrix packed for `multiply`: panels of `panel_width` columns, each with its rows
/// one after the other; the last panel is padded with zeros. A product reads a panel from end to end. Without panels,
/// rows a power of two apart would map to the same few cache lines.
///
///     rows  |  0 .. 31  | 32 .. 63  | 64 .. 71 0 .. 0 |
///           |  panel 0  |  panel 1  |     panel 2     |
constexpr std::size_t packed_size(int rows, int columns) {
  return static_cast<std::size_t>((columns + panel_width - 1) / panel_width) * panel_width *
         static_cast<std::size_t>(rows);
}

namespace detail {

// A bias of bf16 products is a float. A copy next to the packed weights is rounded once per step, for devices whose
// products read a rounded one.

template <class T>
inline constexpr bool rounds_bias = !std::is_same_v<T, compute_type<T>>;

/// Elements of the copy: none if T does not round.
template <class T>
constexpr std::size_t rounded_bias_size(int n) {
  return rounds_bias<T> ? packed_size(1, n) : 0;
}

template <class C, class T>
void round_bias(const C& c, int n, const compute_type<T>* bias, T* rounded) {
  if constexpr (rounds_bias<T>) c.pack(1, n, bias, n, false, rounded);
}

/// y[rows x n] = bias + a * b with a packed b, by the rounded copy if the context reads one.
template <class C, class T>
void multiply_plus_bias(const C& c, int rows, int n, int k, const T* a, const T* packed_b, const compute_type<T>* bias,
                        const T* rounded, T* y) {
  if constexpr (rounds_bias<T> && requires { c.multiply_plus(rows, n, k, a, packed_b, rounded, y); })
    c.multiply_plus(rows, n, k, a, packed_b, rounded, y);
  else c.multiply_plus(rows, n, k, a, packed_b, bias, y);
}

}  // namespace detail

/// The maximum number of micro-batches that one kernel call combines.
inline constexpr int max_gradient_group = 8;

/// The rows of a matrix in several parts in memory: `rows` in each part but the last, which has the remaining rows.
template <class T>
struct row_parts {
  const T* part[max_gradient_group];
  int rows;
};

}  // namespace gpipe
