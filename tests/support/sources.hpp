#pragma once

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

// The files and the text of the project, for laws that read them.

namespace sources {

namespace fs = std::filesystem;

inline const fs::path root = fs::path(GPIPE_TESTS_FOLDER).parent_path();

inline std::string read(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// The files with one of these extensions in a folder of the project and all folders in it, in order.
inline std::vector<fs::path> files_of(const fs::path& folder, std::initializer_list<std::string_view> extensions) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(root / folder))
    if (entry.is_regular_file() &&
        std::find(extensions.begin(), extensions.end(), entry.path().extension().string()) != extensions.end())
      files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

/// The path of a file within a folder of the project: "include/gpipe/core/error.hpp".
inline std::string name_of(const fs::path& file, const fs::path& folder = {}) {
  return file.lexically_relative(root / folder).generic_string();
}

inline std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> lines;
  for (std::size_t begin = 0; begin < text.size();) {
    const auto end = std::min(text.find('\n', begin), text.size());
    lines.emplace_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

/// One text per line.
template <class Texts>
std::string joined(const Texts& texts) {
  std::string lines;
  for (const auto& text : texts) (lines += text) += '\n';
  return lines;
}

inline bool is_name(char c) { return c == '_' || std::isalnum(static_cast<unsigned char>(c)) != 0; }

/// C++ without comments. In place of /*name*/, a parameter that is not used, is its name.
inline std::string without_comments(std::string_view text) {
  std::string code;
  for (std::size_t i = 0; i < text.size();) {
    if (text.substr(i, 2) == "//") {
      i = std::min(text.find('\n', i), text.size());
    } else if (text.substr(i, 2) == "/*") {
      const auto end = text.find("*/", i);
      code += text.substr(i + 2, end - i - 2);
      i = end + 2;
    } else {
      code += text[i++];
    }
  }
  return code;
}

/// The names and the other letters of C++, without comments, strings and preprocessor lines.
inline std::vector<std::string> tokens_of(std::string_view text) {
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  std::vector<std::string> tokens;
  for (std::size_t i = 0; i < text.size();) {
    const char c = text[i];
    std::size_t end = i + 1;
    if (text.substr(i, 2) == "//" || (c == '#' && (i == 0 || text[i - 1] == '\n'))) {
      while (end < text.size() && text[end] != '\n') end += text[end] == '\\' ? 2 : 1;
    } else if (text.substr(i, 2) == "/*") {
      end = text.find("*/", i) + 2;
    } else if (c == '"' ||
               (c == '\'' && !(i > 0 && is_name(text[i - 1]) && is_digit(tokens.back()[0])))) {  // not 1'000
      while (end < text.size() && text[end] != c) end += text[end] == '\\' ? 2 : 1;
      ++end;
      tokens.emplace_back("0");
    } else if (std::isspace(static_cast<unsigned char>(c)) == 0) {
      while (is_name(c) && end < text.size() && is_name(text[end])) ++end;
      tokens.emplace_back(text.substr(i, end - i));
    }
    i = end;
  }
  return tokens;
}

/// The position after the bracket that closes the one at `open`.
inline std::size_t after_pair(std::string_view text, std::size_t open) {
  const char begin = text[open], end = begin == '{' ? '}' : begin == '(' ? ')' : '>';
  int depth = 0;
  for (std::size_t i = open; i < text.size(); ++i) {
    depth += text[i] == begin ? 1 : text[i] == end ? -1 : 0;
    if (depth == 0) return i + 1;
  }
  return text.size();
}

}  // namespace sources
