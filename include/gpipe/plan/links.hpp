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
  int v = net.entering;  // what enters from outside is no stage's
  for (int from = 0; from < S; ++from) {
    const slot& last = net.slots[cut.first[from + 1] - 1];
    for (const int end = last.first_write + last.writes, behind = cut.first[from + 1]; v < end; ++v) {
      const value& of = net.values[v];
      if (of.readers == 0 || net.reader(v, of.readers - 1) < behind) continue;
      for (int i = 0; i < of.readers; ++i)
        if (const int reader = net.reader(v, i); reader >= behind)
          between[from * S + cut.stage_of(reader)] |= of.gradient ? 3 : 1;
    }
  }
  for (int from = 0; from < S; ++from)
    for (int to = from + 1; to < S; ++to)
      if (between[from * S + to] != 0) sink(link{from, to, between[from * S + to] == 3});
}

}  // namespace gpipe
