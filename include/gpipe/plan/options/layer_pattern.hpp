#pragma once

#include <cstddef>
#include <string_view>

#include <gpipe/core/descriptions/plan_choices.hpp>
#include <gpipe/core/zeroed_array.hpp>
#include <gpipe/model/graph.hpp>
#include <gpipe/model/path_tree.hpp>

namespace gpipe::detail {

/// Whether a pattern is the name, or the begin of it up to one of the letters `ends`. A star stands for any letters but
/// a dot.
constexpr bool matches_pattern(std::string_view pattern, std::string_view name, char ends) {
  if (pattern.empty()) return name.empty() || name.front() == ends;
  if (pattern.front() != '*')
    return !name.empty() && name.front() == pattern.front() && matches_pattern(pattern.substr(1), name.substr(1), ends);
  for (std::size_t taken = 0;; ++taken) {
    if (matches_pattern(pattern.substr(1), name.substr(taken), ends)) return true;
    if (taken == name.size() || name[taken] == '.') return false;
  }
}

/// Whether a pattern is the path of a layer, of a group that it is in, or the name of its type: "h.*.mlp" matches the
/// layer h.3.mlp.0, and "linear" a `linear<64>`.
constexpr bool matches_layer(const network& net, std::string_view pattern, int layer) {
  if (pattern.empty()) return false;
  if (matches_pattern(pattern, net.type_of(layer).name, '<')) return true;
  const std::size_t length = write_path(net.paths, layer, nullptr);
  const zeroed_array<char> path(static_cast<int>(length) + 1);
  write_path(net.paths, layer, path.data());
  return matches_pattern(pattern, {path.data(), length}, '.');
}

/// A layer that no pattern may name: the last, or a loss. Nothing is gained by running it again.
constexpr bool always_keeps(const network& net, int layer) {
  return layer == net.layer_count - 1 || net.type_of(layer).loss >= 0;
}

/// The mistakes in a list of patterns.
struct pattern_mistakes {
  const char* unused = nullptr;    ///< the first pattern that names no layer
  int refused = -1;                ///< the first layer that no pattern may name, but one does
  const char* refusing = nullptr;  ///< that pattern
};

/// Marks the layers that the patterns name: `marked[layer]`.
constexpr pattern_mistakes mark_layers(const network& net, const layer_patterns& patterns, bool* marked) {
  pattern_mistakes found;
  for (int i = 0; i < patterns.count; ++i) {
    bool used = false;
    for (int l = 0; l < net.layer_count; ++l)
      if (matches_layer(net, patterns.texts[i], l)) {
        used = marked[l] = true;
        if (always_keeps(net, l) && found.refused < 0) found.refused = l, found.refusing = patterns.texts[i];
      }
    if (!used && found.unused == nullptr) found.unused = patterns.texts[i];
  }
  return found;
}

}  // namespace gpipe::detail
