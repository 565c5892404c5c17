#pragma once

#include <gpipe/plan/action.hpp>
#include <gpipe/plan/cut.hpp>

namespace gpipe {

/// The links of a cut, ascending in (from, to): one wherever a stage reads what an earlier one writes. It brings back
/// gradients if any of its values wants one. Calls `sink(link)` for each.
template <class Sink>
GPIPE_ONCE constexpr void find_links(const network& net, const cut& cut, Sink&& sink) {
  const int S = cut.stages;
  const detail::scratch<unsigned char> between(S * S);  // 1: a link, 3: with gradients
  for (int v = 0; v < net.value_count; ++v) {
    const int from = cut.stage_of(net.values[v].writer);
    for (int i = 0; from >= 0 && i < net.values[v].readers; ++i) {
      const int to = cut.stage_of(net.reader(v, i));
      if (to != from) between[from * S + to] |= net.values[v].gradient ? 3 : 1;
    }
  }
  for (int from = 0; from < S; ++from)
    for (int to = from + 1; to < S; ++to)
      if (between[from * S + to] != 0) sink(link{from, to, between[from * S + to] == 3});
}

}  // namespace gpipe
