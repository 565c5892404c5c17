#pragma once

// A comma-separated file of numbers: rows of features, with a label last.

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gpipe/core/error.hpp>
#include <gpipe/core/text/quoted.hpp>

namespace example {

struct labelled_rows {
  std::vector<float> features;  // row by row
  std::vector<std::int32_t> labels;
};

/// Limits of a file, so that data without end (/dev/zero, a pipe) are refused and do not fill the memory.
inline constexpr std::size_t longest_line = 1 << 20, most_rows = std::size_t{1} << 24;

/// Reads a line, or its first `longest_line` + 1 characters.
inline bool read_line(std::istream& file, std::string& text) {
  text.clear();
  for (int c = file.get(); c != std::istream::traits_type::eof(); c = file.get()) {
    if (c == '\n') return true;
    text += static_cast<char>(c);
    if (text.size() > longest_line) return true;
  }
  return !text.empty();
}

/// Whether a number that does not fit a float is too near to 0: it is read as 0.
inline bool is_tiny(const std::string& number) { return std::fabs(std::strtod(number.c_str(), nullptr)) < 1; }

/// Reads rows of `width` numbers and a label in [0, classes). Anything else is an error with its line. A number may be
/// `nan` or `inf`: the training handles these.
inline labelled_rows read_csv(const std::string& path, int width, int classes) {
  const auto fail = [&](long line, const std::string& wrong, const std::string& remedy) {
    throw gpipe::error(wrong, remedy, {.file = path, .line = line});
  };
  if (!std::filesystem::exists(path)) fail(-1, "there is no such file", "give the path of a file");
  if (std::filesystem::is_directory(path)) fail(-1, "is a folder", "give the path of a file");
  const auto shown = [](const std::string& word) { return gpipe::detail::quoted(word); };
  std::ifstream file(path, std::ios::binary);
  if (!file) fail(-1, "cannot be opened", "check its permissions");

  const std::string expected = std::to_string(width) + " numbers and a label, separated by commas";
  labelled_rows rows;
  std::string text;
  for (long line = 1; read_line(file, text); ++line) {
    if (text.size() > longest_line)
      fail(line, "has more than " + std::to_string(longest_line) + " characters", "give lines of " + expected);
    if (rows.labels.size() == most_rows)
      fail(line, "is a row after the first " + std::to_string(most_rows), "give a file that ends, with fewer rows");
    if (line == 1 && text.starts_with("\xef\xbb\xbf")) text.erase(0, 3);  // the byte-order mark that editors write
    if (!text.empty() && text.back() == '\r') text.pop_back();
    if (text.empty() && file.peek() == std::ifstream::traits_type::eof()) break;
    if (text.find('\0') != std::string::npos) fail(line, "is binary", "give lines of text: " + expected);
    const char *at = text.data(), *const end = text.data() + text.size();
    for (int column = 0; column <= width; ++column) {
      const bool last = column == width;
      const std::string where = "column " + std::to_string(column + 1);
      while (at != end && *at == ' ') ++at;
      float number = 0;
      std::int32_t label = 0;
      const auto [next, failure] = last ? std::from_chars(at, end, label) : std::from_chars(at, end, number);
      const std::string word(at, std::find(at, end, ','));
      if (at == end || (at == text.data() + text.size() && column > 0))
        fail(line, "has " + std::to_string(column) + " columns, not " + std::to_string(width + 1),
               "give " + expected);
      if (failure == std::errc::result_out_of_range && (last || !is_tiny(std::string(at, next))))
        fail(line, where + ": " + shown(word) + " does not fit " + (last ? "a label" : "a float"),
               "give smaller numbers");
      if (failure != std::errc{} && failure != std::errc::result_out_of_range)
        fail(line, where + ": " + shown(word) + " is not a " + (last ? "label" : "number"), "give " + expected);
      at = next;
      while (at != end && *at == ' ') ++at;
      if (last && at != end)
        fail(line,
               *at == ',' ? "has more than " + std::to_string(width + 1) + " columns"
                          : where + ": " + shown(word) + " is not a label",
               "give " + expected);
      if (!last && at != end && *at != ',')
        fail(line, where + ": " + shown(word) + " is not a number", "give " + expected);
      if (!last && at != end) ++at;
      if (last && (label < 0 || label >= classes))
        fail(line, "label " + std::to_string(label) + " is out of range",
               "choose labels in 0 ... " + std::to_string(classes - 1));
      if (last) rows.labels.push_back(label);
      else rows.features.push_back(number);
    }
  }
  if (file.bad()) fail(-1, "could not be read to its end", "check the disk");
  if (rows.labels.empty()) fail(-1, "is empty", "give lines of " + expected);
  return rows;
}

}  // namespace example
