#pragma once

#include <array>
#include <cstddef>
#include <initializer_list>

namespace gpipe::detail {

/// A tensor's extents as a value, at most `max_rank` of them, without a batch extent: for example a parameter's shape.
struct shape {
  static constexpr int max_rank = 6;

  int rank = 0;
  int extents[max_rank]{};

  constexpr shape() = default;
  constexpr shape(std::initializer_list<int> list) {
    for (const int extent : list) extents[rank++] = extent;
  }
  template <std::size_t Rank>
  constexpr explicit shape(const std::array<int, Rank>& list) {
    static_assert(Rank <= max_rank, "gpipe: a shape has at most 6 extents");
    for (std::size_t i = 0; i < Rank; ++i) extents[rank++] = list[i];
  }

  constexpr std::size_t size() const {
    std::size_t product = 1;
    for (int i = 0; i < rank; ++i) product *= static_cast<std::size_t>(extents[i]);
    return product;
  }
  friend constexpr bool operator==(const shape&, const shape&) = default;
};

}  // namespace gpipe::detail
