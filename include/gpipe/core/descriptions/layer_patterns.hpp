#pragma once

#include <initializer_list>
#include <string_view>

#include <gpipe/core/error.hpp>
#include <gpipe/core/text/quantity.hpp>

namespace gpipe {

/// Patterns that select layers: `{"h.*.mlp", "layer_norm"}`. The strings must have static lifetime. A pattern is the
/// path of a layer or of a group of layers, or the name of a layer type. A star matches any letters except a dot.
struct layer_patterns {
  static constexpr int max_count = 16;

  const char* texts[max_count]{};
  int count = 0;

  constexpr layer_patterns() = default;
  constexpr layer_patterns(std::initializer_list<const char*> list) {
    for (const char* pattern : list) add(pattern);
  }

  constexpr void add(const char* pattern) {
    if (count == max_count)
      detail::throw_error({"a list of layers has more than ", int{max_count}, " patterns"}, {"use stars: \"h.*.mlp\""});
    texts[count++] = pattern;
  }
  constexpr bool empty() const { return count == 0; }
  constexpr bool operator==(const layer_patterns& right) const {
    if (count != right.count) return false;
    for (int i = 0; i < count; ++i)
      if (std::string_view(texts[i]) != right.texts[i]) return false;
    return true;
  }
};

}  // namespace gpipe
