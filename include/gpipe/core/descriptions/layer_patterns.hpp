#pragma once

#include <initializer_list>
#include <string_view>

#include <gpipe/core/error.hpp>
#include <gpipe/core/text/quantity.hpp>

namespace gpipe {

/// A list of layers by pattern, whose letters live as long as the program: `{"h.*.mlp", "layer_norm"}`. A pattern is
/// the path of a layer, of a group of layers, or the name of a type of layer. A star stands for any letters but a dot.
struct layer_patterns {
  static constexpr int max_count = 16;

  const char* of[max_count]{};
  int count = 0;

  constexpr layer_patterns() = default;
  constexpr layer_patterns(std::initializer_list<const char*> patterns) {
    for (const char* pattern : patterns) add(pattern);
  }

  constexpr void add(const char* pattern) {
    if (count == max_count)
      detail::throw_error({"a list of layers has more than ", int{max_count}, " patterns"}, {"use stars: \"h.*.mlp\""});
    of[count++] = pattern;
  }
  constexpr bool empty() const { return count == 0; }
  constexpr bool operator==(const layer_patterns& other) const {
    if (count != other.count) return false;
    for (int i = 0; i < count; ++i)
      if (std::string_view(of[i]) != other.of[i]) return false;
    return true;
  }
};

}  // namespace gpipe
