#pragma once

// The page that the bench writes, and prints as it grows.

#include <gpipe/core/text/quantity.hpp>

#include <cstdint>
#include <cstdio>
#include <fstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace paper {

inline std::string fixed(double value, int digits) { return gpipe::detail::fixed(value, digits); }
inline std::string percent(double share) { return fixed(100 * share, 1) + " %"; }
inline std::string gigabytes(std::int64_t bytes) { return fixed(1e-9 * static_cast<double>(bytes), 2); }
inline std::string millions(std::size_t count) { return fixed(1e-6 * static_cast<double>(count), 1) + " M"; }

/// Markdown.
class page {
 public:
  /// A paragraph, a list or a drawing, without blank lines at its ends; one follows.
  void add(std::string text) {
    text.erase(0, text.find_first_not_of('\n'));
    while (text.ends_with('\n')) text.pop_back();
    std::printf("%s\n\n", text.c_str());
    (text_ += text) += "\n\n";
  }
  void heading(const std::string& title) { add("## " + title); }

  /// A table; the first row is its heading.
  void table(const std::vector<std::vector<std::string>>& rows) {
    std::string all;
    for (std::size_t r = 0; r < rows.size(); ++r) {
      all += "|";
      for (const std::string& cell : rows[r]) all += " " + cell + " |";
      all += "\n";
      if (r > 0) continue;
      all += "|";
      for (std::size_t c = 0; c < rows[r].size(); ++c) all += "---|";
      all += "\n";
    }
    add(all);
  }

  bool write(const std::string& path) const {
    std::ofstream out(path);
    out << std::string_view(text_).substr(0, text_.size() - 1);
    return static_cast<bool>(out.flush());
  }

 private:
  std::string text_;
};

}  // namespace paper
