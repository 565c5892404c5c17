#pragma once

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <gpipe/core/config.hpp>

// Numbers as people read them, the same in every locale.

namespace gpipe::detail {

/// `value` with the given number of decimals.
GPIPE_COLD inline std::string fixed(double value, int decimals) {
  char digits[400];
  const auto end = std::to_chars(digits, digits + sizeof digits, value, std::chars_format::fixed, decimals);
  return {digits, end.ptr};
}

/// `value` with the given number of significant digits: 0.00123, 1e-05.
GPIPE_COLD inline std::string significant(double value, int digits) {
  char text[64];
  const auto end = std::to_chars(text, text + sizeof text, value, std::chars_format::general, digits);
  return {text, end.ptr};
}

/// A count with a decimal prefix: 539 k, 1.06 G.
GPIPE_COLD inline std::string counted(std::uint64_t count) {
  const char* units[] = {"", " k", " M", " G", " T", " P", " E"};
  double value = static_cast<double>(count);
  int unit = 0;
  for (; value >= 999.5 && unit < 6; ++unit) value /= 1000;
  return (unit == 0 || value >= 99.95 ? fixed(value, 0) : significant(value, 3)) + units[unit];
}

/// A count with its noun, which is given in the singular: 1 stage, 2 stages, 4 micro-batches.
GPIPE_COLD inline std::string several(std::int64_t count, std::string noun) {
  if (count != 1) noun += noun.ends_with("ch") ? "es" : "s";
  return std::to_string(count) + ' ' + noun;
}

/// A size in bytes with a binary prefix: 512 B, 3.25 MiB.
GPIPE_COLD inline std::string sized(std::uint64_t bytes) {
  const char* units[] = {" B", " KiB", " MiB", " GiB", " TiB", " PiB", " EiB"};
  double value = static_cast<double>(bytes);
  int unit = 0;
  for (; value >= 1023.5 && unit < 6; ++unit) value /= 1024;
  return (unit == 0 || value >= 99.95 ? fixed(value, 0) : significant(value, 3)) + units[unit];
}

/// A size that a user chose, exactly, and as it was probably written: 1000 bytes, 51200 bytes (50 KiB), 3460300 bytes
/// (3.3 MiB), 500000000 bytes (500 MB).
GPIPE_COLD inline std::string chosen_size(std::uint64_t bytes) {
  std::string exact = std::to_string(bytes) + (bytes == 1 ? " byte" : " bytes");
  if (bytes < 10'000) return exact;
  if (bytes % 1024 == 0 && bytes < 1'024'000) return exact + " (" + std::to_string(bytes / 1024) + " KiB)";
  const char* units[] = {" TB", " GB", " MB", " KB"};
  std::uint64_t size = 1'000'000'000'000;
  for (const char* unit : units) {
    std::uint64_t digits = bytes % (size / 100) == 0 ? bytes / (size / 100) : 1001;
    while (digits > 0 && digits % 10 == 0) digits /= 10;
    if (bytes >= size && digits < 1000)
      return exact + " (" + significant(static_cast<double>(bytes) / static_cast<double>(size), 6) + unit + ')';
    size /= 1000;
  }
  return exact + " (" + sized(bytes) + ')';
}

/// A part as a percentage of the whole: 24.8 %; `-` if the whole is 0.
GPIPE_COLD inline std::string percent(double part, double whole) {
  return whole > 0 ? fixed(100 * part / whole, 1) + " %" : "-";
}

/// A number with as many digits as it needs to be read back.
GPIPE_COLD inline std::string exact_text(double x) {
  char digits[32];
  return std::string(digits, std::to_chars(digits, digits + sizeof digits, x).ptr);
}

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
