#pragma once

// Layer costs of a model that is not written with gpipe: a file with a header line and a line a layer.
//
//     name,forward_ns,backward_ns,parameter_bytes,activation_bytes,output_bytes
//     embedding,1200,2400,262144000,4096,8388608

#include <charconv>
#include <cstdint>
#include <limits>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include <gpipe/core/error.hpp>
#include <gpipe/core/text/quantity.hpp>
#include <gpipe/record/file/read_file.hpp>

namespace example {

/// One layer, on one micro-batch.
struct table_layer {
  std::string name;
  std::int64_t forward_ns = 0, backward_ns = 0;
  std::int64_t parameter_bytes = 0;   // its parameters, their gradients and the optimizer's state
  std::int64_t activation_bytes = 0;  // kept for backward
  std::int64_t output_bytes = 0;      // read by the next layer; 0 if the file has no such column
};

namespace detail {

inline std::vector<std::string_view> split(std::string_view line) {
  std::vector<std::string_view> words;
  for (;;) {
    const std::size_t comma = line.find(',');
    std::string_view word = line.substr(0, comma);
    while (!word.empty() && (word.front() == ' ' || word.front() == '\t')) word.remove_prefix(1);
    while (!word.empty() && (word.back() == ' ' || word.back() == '\t')) word.remove_suffix(1);
    words.push_back(word);
    if (comma == std::string_view::npos) return words;
    line.remove_prefix(comma + 1);
  }
}

}  // namespace detail

/// Reads such a file. A malformed line is an error with its number.
inline std::vector<table_layer> read_layer_table(const std::string& path) {
  constexpr std::string_view columns[] = {
      "name", "forward_ns", "backward_ns", "parameter_bytes", "activation_bytes", "output_bytes"};
  constexpr std::int64_t table_layer::*members[] = {nullptr,
                                                    &table_layer::forward_ns,
                                                    &table_layer::backward_ns,
                                                    &table_layer::parameter_bytes,
                                                    &table_layer::activation_bytes,
                                                    &table_layer::output_bytes};
  constexpr std::size_t known = std::size(columns), required = known - 1;
  const std::string expected =
      "give the header name,forward_ns,backward_ns,parameter_bytes,activation_bytes (and output_bytes, if you know it) "
      "and a line a layer";
  const auto fail = [&](long line, const std::string& wrong, const std::string& remedy) {
    throw gpipe::error(wrong, remedy, {.file = path, .line = line});
  };
  const auto quoted = [](std::string_view word) { return "\"" + std::string(word) + "\""; };

  std::istringstream file(gpipe::read_file(path));
  std::vector<std::size_t> column_at;  // the column of each word of a line
  std::vector<table_layer> layers;
  table_layer sum;
  std::string text;
  for (long line = 1; std::getline(file, text); ++line) {
    if (line == 1 && text.starts_with("\xEF\xBB\xBF")) text.erase(0, 3);
    if (!text.empty() && text.back() == '\r') text.pop_back();
    if (text.empty() && line > 1 && file.peek() == std::istringstream::traits_type::eof()) break;
    for (const char c : text)
      if (static_cast<unsigned char>(c) < ' ' && c != '\t') fail(line, "is binary", expected);
    const std::vector<std::string_view> words = detail::split(text);

    if (line == 1) {
      bool seen[known]{};
      for (const std::string_view word : words) {
        std::size_t c = 0;
        while (c < known && columns[c] != word) ++c;
        if (c == known) {
          const bool header = text.find("name") != std::string::npos || text.find("_ns") != std::string::npos;
          fail(line, header ? "unknown column " + quoted(word) : "the header is missing", expected);
        }
        if (seen[c]) fail(line, "column " + quoted(word) + " appears twice", expected);
        seen[c] = true;
        column_at.push_back(c);
      }
      for (std::size_t c = 0; c < required; ++c)
        if (!seen[c]) fail(line, "column " + quoted(columns[c]) + " is missing", expected);
      continue;
    }

    if (text.empty()) fail(line, "is empty", "leave it out");
    if (words.size() != column_at.size())
      fail(line,
           "has " + gpipe::detail::several(static_cast<std::int64_t>(words.size()), "column") + ", not " +
               std::to_string(column_at.size()),
           "give as many as the header");
    table_layer& layer = layers.emplace_back();
    for (std::size_t i = 0; i < words.size(); ++i) {
      const std::size_t c = column_at[i];
      const std::string_view word = words[i];
      if (c == 0) {
        if (word.empty()) fail(line, "the layer has no name", "give it one");
        layer.name = word;
        continue;
      }
      const std::string where = std::string(columns[c]) + ": " + quoted(word);
      std::int64_t number = 0;
      const auto [end, failure] = std::from_chars(word.data(), word.data() + word.size(), number);
      if (failure == std::errc::invalid_argument || end != word.data() + word.size())
        fail(line, where + " is not a whole number", "give a whole number of nanoseconds or bytes");
      if (word.front() == '-') fail(line, where + " is negative", "give 0 or more");
      if (failure == std::errc::result_out_of_range ||
          number > (std::numeric_limits<std::int64_t>::max)() - sum.*members[c])
        fail(line, where + (failure == std::errc{} ? " makes the sum of the column exceed" : " exceeds") + " 64 bits",
             "give smaller numbers");
      layer.*members[c] = number;
      sum.*members[c] += number;
    }
  }
  if (column_at.empty()) fail(-1, "is empty", expected);
  if (layers.empty()) fail(-1, "has no layers", expected);
  return layers;
}

}  // namespace example
