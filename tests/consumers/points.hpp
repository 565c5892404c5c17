#pragma once

#include <cstdint>
#include <vector>

#include <gpipe.hpp>

/// 256 points of the plane, labelled by their side of the diagonal.
inline gpipe::dataset points() {
  std::vector<float> coordinates(256 * 2);
  std::vector<std::int32_t> sides(256);
  for (std::uint32_t i = 0; i < 256; ++i) {
    for (std::uint32_t j = 0; j < 2; ++j) coordinates[2 * i + j] = gpipe::uniform(gpipe::draw({}, i, j).word[0]) - 0.5F;
    sides[i] = coordinates[2 * i] > coordinates[2 * i + 1];
  }
  return gpipe::dataset{}.with("inputs", 2, coordinates).with("labels", 1, sides);
}
