#pragma once

#include <gpipe/core/error.hpp>
#include <gpipe/core/zeroed_array.hpp>
#include <gpipe/model/graph.hpp>
#include <gpipe/plan/stages/cut.hpp>

namespace gpipe {

/// Stage `from` sends activations to the later stage `to`: one channel forward and, if `gradient`, one back.
/// Neighbours have a link if a value flows between them; a skip has its own link.
struct stage_link {
  int from = 0, to = 0;
  bool gradient = true;

  constexpr bool operator==(const stage_link&) const = default;
};

namespace detail {

/// The links of a cut, ascending in (from, to): one for each pair of stages of which the later reads values of the
/// earlier. A link has gradients if any of its values has one. Calls `sink(link)` for each.
template <class Sink>
GPIPE_COLD constexpr void find_links(const network& net, const cut& cut, Sink&& sink) {
  const int S = cut.stages;
  const detail::zeroed_array<unsigned char> between(S * S);  // 1: a link, 3: with gradients
  int v = net.entering;                                      // no stage writes the values that enter the model
  for (int from = 0; from < S; ++from) {
    const expanded_layer& last = net.layers[cut.first[from + 1] - 1];
    for (const int end = last.first_write + last.writes, next = cut.first[from + 1]; v < end; ++v) {
      const value& of = net.values[v];
      if (of.readers == 0 || net.reader(v, of.readers - 1) < next) continue;
      for (int i = 0; i < of.readers; ++i)
        if (const int reader = net.reader(v, i); reader >= next)
          between[from * S + cut.stage_of(reader)] |= of.gradient ? 3 : 1;
    }
  }
  for (int from = 0; from < S; ++from)
    for (int to = from + 1; to < S; ++to)
      if (between[from * S + to] != 0) sink(stage_link{from, to, between[from * S + to] == 3});
}

/// The layers from which on every layer reads the one before it: any of its values, or a value that has a gradient. If
/// such a layer is at most 1, neighbouring stages of any cut have a link, or a link with gradients.
struct chain_begin {
  int values = 1, gradients = 1;

  constexpr int begin(bool trains) const { return trains ? gradients : values; }
};
GPIPE_COLD constexpr chain_begin chained_from(const network& net) {
  chain_begin found;
  for (int l = 1; l < net.layer_count; ++l) {
    bool reads = false, gradient = false;
    for (int i = 0; i < net.layers[l].reads; ++i)
      if (const value& of = net.values[net.reads_value(l, i)]; of.writer == l - 1) {
        reads = true;
        gradient = gradient || of.gradient;
      }
    if (!reads) found.values = l + 1;
    if (!gradient) found.gradients = l + 1;
  }
  return found;
}

[[noreturn]] inline void bad_link(int index, const stage_link& link, int stages) {
  throw_error({"link ", index, " goes from stage ", link.from, " to stage ", link.to},
              {"links must go from a stage to a later one of the ", stages, ", in ascending order of (from, to)"});
}

constexpr void require_links(int stages, const stage_link* links, int link_count) {
  for (int i = 0; i < link_count; ++i) {
    const stage_link& it = links[i];
    if (it.from < 0 || it.from >= it.to || it.to >= stages ||
        (i > 0 && (links[i - 1].from > it.from || (links[i - 1].from == it.from && links[i - 1].to > it.to))))
      bad_link(i, it, stages);
  }
}

}  // namespace detail

}  // namespace gpipe
