#pragma once

#include <gpipe/core/config.hpp>

#include <string>
#include <string_view>

// Escapes the reserved characters of file formats.

namespace gpipe::detail {

// change: a report or a drawing
/// As a JSON string, with its quotes.
GPIPE_COLD inline std::string json(std::string_view text) {
  constexpr const char* hex = "0123456789abcdef";
  std::string result = "\"";
  for (const char c : text) {
    const auto code = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      result += {'\\', c};
    } else if (code < 0x20) {
      result += {'\\', 'u', '0', '0', hex[code >> 4], hex[code & 15]};
    } else {
      result += c;
    }
  }
  return result + '"';
}

/// As text or attribute of XML, which has no control characters.
GPIPE_COLD inline std::string xml(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == '&') result += "&amp;";
    else if (c == '<') result += "&lt;";
    else if (c == '>') result += "&gt;";
    else if (c == '"') result += "&quot;";
    else if (static_cast<unsigned char>(c) < 0x20) result += ' ';
    else result += c;
  }
  return result;
}

}  // namespace gpipe::detail
