#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include <gpipe/core/config.hpp>

namespace gpipe::detail {

/// Rows of text, one per line, right-aligned in columns that are as wide as their widest cell.
GPIPE_COLD inline std::string table(const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::size_t> widths;
  for (const auto& row : rows) {
    widths.resize((std::max)(widths.size(), row.size()));
    for (std::size_t c = 0; c < row.size(); ++c) widths[c] = (std::max)(widths[c], row[c].size());
  }
  std::string text;
  for (const auto& row : rows) {
    for (std::size_t c = 0; c < row.size(); ++c)
      text.append(c == 0 ? 0 : 2, ' ').append(widths[c] - row[c].size(), ' ').append(row[c]);
    text += '\n';
  }
  return text;
}

}  // namespace gpipe::detail
