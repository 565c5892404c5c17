#pragma once

// A comma-separated file of numbers: rows of features, with a label last.

#include <charconv>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gpipe/core/error.hpp>

namespace example {

struct labelled_rows {
  std::vector<float> features;  // row by row
  std::vector<std::int32_t> labels;
};

/// Reads rows of `width` numbers and a label in [0, classes). Anything else is an error with its line. A number may be
/// `nan` or `inf`: the training handles these.
inline labelled_rows read_csv(const std::string& path, int width, int classes) {
  const auto fail = [&](long line, const std::string& wrong, const std::string& remedy) {
    throw gpipe::error(wrong, remedy, {.file = path, .line = line});
  };
  if (!std::filesystem::exists(path)) fail(-1, "there is no such file", "give the path of a file");
  if (std::filesystem::is_directory(path)) fail(-1, "is a folder", "give the path of a file");
  std::ifstream file(path, std::ios::binary);
  if (!file) fail(-1, "cannot be opened", "check its permissions");

  const std::string expected = std::to_string(width) + " numbers and a label, separated by commas";
  labelled_rows rows;
  std::string text;
  for (long line = 1; std::getline(file, text); ++line) {
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
      if (failure == std::errc::result_out_of_range)
        fail(line, where + ": \"" + word + "\" does not fit " + (last ? "a label" : "a float"),
               "give smaller numbers");
      if (failure != std::errc{})
        fail(line, where + ": \"" + word + "\" is not a " + (last ? "label" : "number"), "give " + expected);
      at = next;
      while (at != end && *at == ' ') ++at;
      if (last && at != end)
        fail(line,
               *at == ',' ? "has more than " + std::to_string(width + 1) + " columns"
                          : where + ": \"" + word + "\" is not a label",
               "give " + expected);
      if (!last && at != end && *at != ',')
        fail(line, where + ": \"" + word + "\" is not a number", "give " + expected);
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
