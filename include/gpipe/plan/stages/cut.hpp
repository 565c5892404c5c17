#pragma once

#include <gpipe/core/error.hpp>
#include <gpipe/core/zeroed_array.hpp>
#include <gpipe/model/graph.hpp>

namespace gpipe {

// assumes: one device per layer
/// A cut of a model: stage s holds the layers [first[s], first[s + 1]).
struct cut {
  const int* first = nullptr;
  int stages = 0;
  /// [layer]: the layer before whose backward this one runs forward again. -1: its outputs are kept. Null: all outputs
  /// are kept, or whole micro-batches are recomputed.
  const int* recomputed_before = nullptr;

  /// The stage of a layer; -1 for the writer of a value that enters the model (layer -1).
  constexpr int stage_of(int layer) const {
    if (layer < 0) return -1;
    int low = 0, high = stages;
    while (high - low > 1) {
      const int middle = (low + high) / 2;
      (first[middle] <= layer ? low : high) = middle;
    }
    return low;
  }
};

/// Stage `source` sends activations to the later stage `target`: one channel forward and, if `gradient`, one back.
/// Neighbours have a link if a value flows between them; a skip has its own link.
struct stage_link {
  int source = 0, target = 0;
  bool gradient = true;

  constexpr bool operator==(const stage_link&) const = default;
};

namespace detail {

/// The links of a cut, ascending in (source, target): one for each pair of stages in which the later stage reads
/// values of the earlier one. A link has gradients if any of its values has one. Calls `sink(link)` for each.
template <class Sink>
GPIPE_COLD constexpr void find_links(const network& net, const cut& cut, Sink&& sink) {
  const int S = cut.stages;
  const detail::zeroed_array<unsigned char> between(S * S);  // 1: a link, 3: with gradients
  int v = net.entering;                                      // no stage writes the values that enter the model
  for (int source = 0; source < S; ++source) {
    const expanded_layer& last = net.layers[cut.first[source + 1] - 1];
    for (const int end = last.first_write + last.writes, next = cut.first[source + 1]; v < end; ++v) {
      const value& value = net.values[v];
      if (value.readers == 0 || net.reader(v, value.readers - 1) < next) continue;
      for (int i = 0; i < value.readers; ++i)
        if (const int reader = net.reader(v, i); reader >= next)
          between[source * S + cut.stage_of(reader)] |= value.gradient ? 3 : 1;
    }
  }
  for (int source = 0; source < S; ++source)
    for (int target = source + 1; target < S; ++target)
      if (between[source * S + target] != 0) sink(stage_link{source, target, between[source * S + target] == 3});
}

/// The links of a cut as an array.
class link_list {
 public:
  GPIPE_COLD constexpr link_list(const network& net, const cut& cut) : list_(cut.stages * (cut.stages - 1) / 2) {
    find_links(net, cut, [this](const stage_link& link) { list_[count_++] = link; });
  }
  constexpr const stage_link* data() const { return list_.data(); }
  constexpr int count() const { return count_; }

 private:
  zeroed_array<stage_link> list_;
  int count_ = 0;
};

/// The first layers such that every layer from there on reads the layer before it: any of its values, or a value that
/// has a gradient. If such a layer is at most 1, neighbouring stages of any cut have a link, or a link with gradients.
struct chain_begin {
  int values = 1, gradients = 1;

  constexpr int begin(bool trains) const { return trains ? gradients : values; }
};
GPIPE_COLD constexpr chain_begin chained_from(const network& net) {
  chain_begin found;
  for (int l = 1; l < net.layer_count; ++l) {
    bool reads = false, gradient = false;
    for (int i = 0; i < net.layers[l].reads; ++i)
      if (const value& value = net.values[net.reads_value(l, i)]; value.writer == l - 1) {
        reads = true;
        gradient = gradient || value.gradient;
      }
    if (!reads) found.values = l + 1;
    if (!gradient) found.gradients = l + 1;
  }
  return found;
}

[[noreturn]] inline void bad_link(int index, const stage_link& link, int stages) {
  throw_error({"link ", index, " goes from stage ", link.source, " to stage ", link.target},
              {"links must go from a stage to a later one of the ", stages, ", in ascending order of (from, to)"});
}

constexpr void require_links(int stages, const stage_link* links, int link_count) {
  for (int i = 0; i < link_count; ++i) {
    const stage_link& link = links[i];
    if (link.source < 0 || link.source >= link.target || link.target >= stages ||
        (i > 0 && (links[i - 1].source > link.source ||
                   (links[i - 1].source == link.source && links[i - 1].target > link.target))))
      bad_link(i, link, stages);
  }
}

}  // namespace detail

}  // namespace gpipe
