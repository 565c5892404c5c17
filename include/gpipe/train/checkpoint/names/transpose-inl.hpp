#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <initializer_list>

#include <gpipe/train/checkpoint/names/transpose.hpp>

namespace gpipe::detail {

GPIPE_COLD GPIPE_INLINE axis_order::axis_order(std::initializer_list<std::size_t> here,
                                               std::initializer_list<int> in_file) {
  int kept[max_axes]{};  // the number of each axis, when those of one element are gone
  for (std::size_t a = 0; a < here.size(); ++a) {
    kept[a] = axes_;
    if (const std::size_t extent = here.begin()[a]; extent != 1) extents_[axes_++] = extent;
  }
  int at = 0;
  bool turned = false;
  for (const int a : in_file) {
    if (here.begin()[a] == 1) continue;
    turned = turned || kept[a] != at;
    in_file_[at++] = kept[a];
  }
  if (!turned) *this = axis_order();
}

GPIPE_COLD GPIPE_INLINE axis_order axis_order::inverse() const {
  axis_order other = *this;
  for (int k = 0; k < axes_; ++k) {
    other.extents_[k] = extents_[in_file_[k]];
    other.in_file_[in_file_[k]] = k;
  }
  return other;
}

/// to[i][j][k][l] = from[i s0 + j s1 + k s2 + l s3], in tiles of the two axes along which `to` and `from` are dense.
template <std::size_t Element>
GPIPE_COLD void take_elements(const std::byte* from, const std::size_t (&n)[4], const std::size_t (&s)[4],
                              std::byte* to) {
  constexpr std::size_t tile = 16;  // its lines of both arrays stay in the cache
  const std::size_t into[4] = {n[1] * n[2] * n[3], n[2] * n[3], n[3], 1};
  int last = 3;
  while (last > 0 && n[last] == 1) --last;
  int dense = last == 0 ? 1 : 0;  // the axis beside `last` with the smallest stride
  for (int a = 0; a < 4; ++a)
    if (a != last && n[a] > 1 && (n[dense] == 1 || s[a] < s[dense])) dense = a;
  int outer[2]{}, count = 0;
  for (int a = 0; a < 4; ++a)
    if (a != last && a != dense) outer[count++] = a;
  for (std::size_t i = 0; i < n[outer[0]]; ++i)
    for (std::size_t j = 0; j < n[outer[1]]; ++j) {
      const std::byte* const part = from + (i * s[outer[0]] + j * s[outer[1]]) * Element;
      std::byte* const part_to = to + (i * into[outer[0]] + j * into[outer[1]]) * Element;
      for (std::size_t l0 = 0; l0 < n[last]; l0 += tile)
        for (std::size_t d0 = 0; d0 < n[dense]; d0 += tile)
          for (std::size_t d = d0; d < (std::min)(d0 + tile, n[dense]); ++d)
            for (std::size_t l = l0; l < (std::min)(l0 + tile, n[last]); ++l)
              std::memcpy(part_to + (d * into[dense] + l * into[last]) * Element,
                          part + (d * s[dense] + l * s[last]) * Element, Element);
    }
}

GPIPE_COLD GPIPE_INLINE void axis_order::take(const std::byte* from, std::size_t element, std::size_t first,
                                              std::size_t count, std::byte* to) const {
  std::size_t strides[max_axes]{}, stride = 1;  // in the file
  for (int k = max_axes - 1; k >= 0; stride *= extents_[in_file_[k--]]) strides[in_file_[k]] = stride;
  const std::size_t some[max_axes] = {count, extents_[1], extents_[2], extents_[3]};
  from += first * strides[0] * element;
  switch (element) {
    case 8:
      return take_elements<8>(from, some, strides, to);
    case 4:
      return take_elements<4>(from, some, strides, to);
    case 2:
      return take_elements<2>(from, some, strides, to);
    default:
      return take_elements<1>(from, some, strides, to);
  }
}

}  // namespace gpipe::detail
