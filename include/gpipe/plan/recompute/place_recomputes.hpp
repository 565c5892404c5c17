#pragma once

#include <gpipe/model/graph.hpp>

namespace gpipe::detail {

/// When the marked layers of a stage run forward again: `before[layer]`, see `cut`. As late as possible: before the
/// first backward that reads what the layer writes, or together with a layer that then runs again and reads it. So each
/// runs once. A marked layer whose outputs are read by none of these does not run.
///
///     layers       0 norm > 1 attention > 2 add > 3 norm > 4 linear > 5 gelu > 6 linear > 7 add
///     marked       0                              3                   5
///     runs before  1                              4                   6
constexpr void place_recomputes(const network& net, int first, int last, const bool* marked, int* before) {
  const auto raise = [](int& latest, int layer) {
    if (layer > latest) latest = layer;
  };
  for (int l = last - 1; l >= first; --l) {
    before[l] = -1;
    if (!marked[l]) continue;
    const layer_type& r = net.type_of(l);
    if (r.extra_count > 0 || r.keeps.output) before[l] = l;
    for (int o = 0; o < net.layers[l].writes; ++o) {
      const int v = net.writes_value(l, o);
      for (int i = 0; i < net.values[v].readers; ++i) {
        const int reader = net.reader(v, i);
        if (reader >= last) break;
        if (net.type_of(reader).keeps.input) raise(before[l], reader);
        raise(before[l], before[reader]);
      }
    }
  }
}

}  // namespace gpipe::detail
