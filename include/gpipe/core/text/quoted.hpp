#pragma once

#include <string>
#include <string_view>

#include <gpipe/core/config.hpp>

namespace gpipe::detail {

/// A text that a user or a file gave, for a message: in quotes, control characters as \n or \x1b, and at most 80
/// characters, the last three of which are dots if the text is longer. Bytes of UTF-8 stay as they are, and no
/// character of several bytes is cut.
GPIPE_COLD inline std::string quoted(std::string_view text) {
  constexpr std::size_t max = 80;
  constexpr char digits[] = "0123456789abcdef";
  std::string shown;
  std::size_t fits = 0;  // the length of the text before the dots
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const bool continues = byte >= 0x80 && byte < 0xc0;
    if (!continues && shown.size() <= max - 3) fits = shown.size();
    if (byte == '\n') shown += "\\n";
    else if (byte == '\t') shown += "\\t";
    else if (byte == '\r') shown += "\\r";
    else if (byte < 0x20 || byte == 0x7f) ((shown += "\\x") += digits[byte >> 4]) += digits[byte & 15];
    else shown += text[i];
    if (shown.size() > max) return '"' + shown.substr(0, fits) + "...\"";
  }
  return '"' + shown + '"';
}

}  // namespace gpipe::detail
