#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <initializer_list>

#include <gpipe/train/checkpoint/names/transpose.hpp>

namespace gpipe::detail {

GPIPE_COLD GPIPE_INLINE axis_order::axis_order(std::initializer_list<std::size_t> extents,
                                               std::initializer_list<int> in_file) {
  int kept[max_axes]{};  // the number of each axis without axes of one element
  for (std::size_t a = 0; a < extents.size(); ++a) {
    kept[a] = axes_;
    if (const std::size_t extent = extents.begin()[a]; extent != 1) extents_[axes_++] = extent;
  }
  int position = 0;
  bool turned = false;
  for (const int a : in_file) {
    if (extents.begin()[a] == 1) continue;
    turned = turned || kept[a] != position;
    in_file_[position++] = kept[a];
  }
  if (!turned) *this = axis_order();
}

GPIPE_COLD GPIPE_INLINE axis_order axis_order::inverse() const {
  axis_order result = *this;
  for (int k = 0; k < axes_; ++k) {
    result.extents_[k] = extents_[in_file_[k]];
    result.in_file_[in_file_[k]] = k;
  }
  return result;
}

/// target[i][j][k][l] = source[i s0 + j s1 + k s2 + l s3] with strides s, in tiles of the two axes along which `target`
/// and `source` are dense.
template <std::size_t Element>
GPIPE_COLD void take_elements(const std::byte* source, const std::size_t (&extents)[4], const std::size_t (&strides)[4],
                              std::byte* target) {
  constexpr std::size_t tile = 16;  // the lines of a tile stay in the cache for both arrays
  const std::size_t target_strides[4] = {extents[1] * extents[2] * extents[3], extents[2] * extents[3], extents[3], 1};
  int last = 3;
  while (last > 0 && extents[last] == 1) --last;
  int dense = last == 0 ? 1 : 0;  // the axis with the smallest stride other than `last`
  for (int a = 0; a < 4; ++a)
    if (a != last && extents[a] > 1 && (extents[dense] == 1 || strides[a] < strides[dense])) dense = a;
  int outer[2]{}, count = 0;
  for (int a = 0; a < 4; ++a)
    if (a != last && a != dense) outer[count++] = a;
  for (std::size_t i = 0; i < extents[outer[0]]; ++i)
    for (std::size_t j = 0; j < extents[outer[1]]; ++j) {
      const std::byte* const source_part = source + (i * strides[outer[0]] + j * strides[outer[1]]) * Element;
      std::byte* const target_part = target + (i * target_strides[outer[0]] + j * target_strides[outer[1]]) * Element;
      for (std::size_t l0 = 0; l0 < extents[last]; l0 += tile)
        for (std::size_t d0 = 0; d0 < extents[dense]; d0 += tile)
          for (std::size_t d = d0; d < (std::min)(d0 + tile, extents[dense]); ++d)
            for (std::size_t l = l0; l < (std::min)(l0 + tile, extents[last]); ++l)
              std::memcpy(target_part + (d * target_strides[dense] + l * target_strides[last]) * Element,
                          source_part + (d * strides[dense] + l * strides[last]) * Element, Element);
    }
}

GPIPE_COLD GPIPE_INLINE void axis_order::take(const std::byte* source, std::size_t element, std::size_t first,
                                              std::size_t count, std::byte* target) const {
  std::size_t strides[max_axes]{}, stride = 1;  // in the file
  for (int k = max_axes - 1; k >= 0; stride *= extents_[in_file_[k--]]) strides[in_file_[k]] = stride;
  const std::size_t extents[max_axes] = {count, extents_[1], extents_[2], extents_[3]};
  source += first * strides[0] * element;
  switch (element) {
    case 8:
      return take_elements<8>(source, extents, strides, target);
    case 4:
      return take_elements<4>(source, extents, strides, target);
    case 2:
      return take_elements<2>(source, extents, strides, target);
    default:
      return take_elements<1>(source, extents, strides, target);
  }
}

}  // namespace gpipe::detail
