#pragma once

#include <cstdint>

#include <gpipe/model/graph.hpp>
#include <gpipe/plan/stages/cut.hpp>

namespace gpipe {

/// One stage of a cut model, with the facts about each value that it writes or reads.
class stage_view {
 public:
  constexpr stage_view(const network& net, gpipe::cut cut, int stage)
      : net_(net), cut_(cut), stage_(stage), first_(cut.first[stage]), last_(cut.first[stage + 1]) {}
  /// The layers [first, last) as a stage, with every other layer as a separate stage. No other cut with this stage
  /// has more gradients that come back to it or that it sends separately.
  constexpr stage_view(const network& net, int first, int last)
      : net_(net), stage_(first), first_(first), last_(last), separate_(true) {}

  constexpr int first() const { return first_; }
  constexpr int last() const { return last_; }
  constexpr int stage() const { return stage_; }
  constexpr const network& net() const { return net_; }
  constexpr bool holds(int layer) const { return layer >= first_ && layer < last_; }
  /// Whether the stage writes the value.
  constexpr bool writes(int v) const { return holds(net_.values[v].writer); }

  /// The number of a value's readers inside the stage.
  constexpr int local_readers(int v) const {
    int count = 0;
    for (int i = 0; i < net_.values[v].readers; ++i) count += holds(net_.reader(v, i));
    return count;
  }
  /// Whether a later stage reads the value.
  constexpr bool sent(int v) const {
    const detail::value& value = net_.values[v];
    return value.readers > 0 && holds(value.writer) && net_.reader(v, value.readers - 1) >= last_;
  }
  /// Whether the next stage has the `i`-th reader of a value.
  constexpr bool read_by_next(int v, int i) const { return stage_of(net_.reader(v, i)) == stage_ + 1; }
  /// The layer of the stage before whose backward layer `l` runs forward again; -1: its outputs are kept.
  constexpr int recomputed_before(int l) const {
    return cut_.recomputed_before == nullptr ? -1 : cut_.recomputed_before[l];
  }
  constexpr bool recomputed(int l) const { return recomputed_before(l) >= 0; }
  /// The layer before whose backward the first recompute runs: the last that needs one. -1: none does.
  constexpr int first_recomputed() const {
    int found = -1;
    for (int l = first_; cut_.recomputed_before != nullptr && l < last_; ++l)
      if (recomputed_before(l) > found) found = recomputed_before(l);
    return found;
  }
  /// Whether backward of layer `l` reads recomputed values.
  constexpr bool reads_recomputed(int l) const {
    if (cut_.recomputed_before == nullptr) return false;
    const detail::layer_type& r = net_.type_of(l);
    if (recomputed(l) && (r.extra_count > 0 || r.keeps.output)) return true;
    for (int i = 0; r.keeps.input && i < net_.layers[l].reads; ++i)
      if (const int writer = net_.values[net_.reads_value(l, i)].writer; holds(writer) && recomputed(writer))
        return true;
    return false;
  }
  /// Whether the value is kept from forward to backward: backward reads it, or a layer that runs forward again.
  constexpr bool kept(int v) const {
    const detail::value& value = net_.values[v];
    if (holds(value.writer) && recomputed(value.writer)) return false;
    for (int i = 0; cut_.recomputed_before != nullptr && i < value.readers; ++i)
      if (holds(net_.reader(v, i)) && recomputed(net_.reader(v, i))) return true;
    return needed(v);
  }
  /// Whether the stage's backward reads the value.
  constexpr bool needed(int v) const {
    const detail::value& value = net_.values[v];
    if (holds(value.writer) && net_.type_of(value.writer).keeps.output) return true;
    for (int i = 0; i < value.readers; ++i)
      if (holds(net_.reader(v, i)) && net_.type_of(net_.reader(v, i)).keeps.input) return true;
    return false;
  }
  /// Whether the value is written directly into the receiver's stash: no layer of this stage reads any output of its
  /// writer, in forward or backward, so no recompute writes it again.
  constexpr bool direct(int v) const {
    if (!sent(v)) return false;
    const detail::expanded_layer& writer = net_.layers[net_.values[v].writer];
    if (net_.types[writer.type].extra_count > 0) return false;
    for (int o = 0; o < writer.writes; ++o) {
      const detail::value& value = net_.values[writer.first_write + o];
      if (value.readers > 0 && net_.reader(writer.first_write + o, 0) < last_) return false;
      if (needed(writer.first_write + o)) return false;
    }
    return true;
  }
  /// Whether a gradient leaves the stage; then its backward sends it before the parameter part.
  constexpr bool sends_gradients() const {
    for (int l = first_; l < last_ && first_ > 0; ++l)
      for (int i = 0; i < net_.layers[l].reads; ++i)
        if (const detail::value& value = net_.values[net_.reads_value(l, i)]; value.writer < first_ && value.gradient)
          return true;
    return false;
  }
  /// Whether the value enters the stage: an earlier stage writes it, or it enters the model.
  constexpr bool boundary(int v) const { return net_.values[v].writer < first_ && local_readers(v) > 0; }
  /// The index of input `i` of layer `l` among the value's readers, in model order.
  constexpr int reader_index(int v, int l, int i) const {
    const int* readers = net_.readers + net_.values[v].first_reader;
    int index = 0;
    while (readers[index] != net_.layers[l].first_read + i) ++index;
    return index;
  }
  /// Whether this reader is the stage's first reader of the value.
  constexpr bool reads_first(int v, int index) const { return index == 0 || !holds(net_.reader(v, index - 1)); }
  /// Whether that reader's gradient is added to the gradients of later readers. Gradients are summed from the last
  /// reader to the first for every cut; a stage sends a gradient separately if it must not add it before an earlier
  /// one.
  constexpr bool adds(int v, int index) const {
    const bool later_inside = index + 1 < net_.values[v].readers && holds(net_.reader(v, index + 1));
    if (holds(net_.values[v].writer)) return later_inside || sent(v);
    return later_inside && top_stage(v) == stage_;
  }

  /// Marks the layers that a recompute must run: writers of values that backward needs, and of the values that these
  /// read.
  constexpr void mark_rerun(bool* rerun) const {
    for (int l = last_ - 1; l >= first_; --l) {
      bool needed = net_.type_of(l).extra_count > 0;
      for (int o = 0; o < net_.layers[l].writes && !needed; ++o) {
        const int v = net_.writes_value(l, o);
        needed = kept(v);
        for (int i = 0; i < net_.values[v].readers && !needed; ++i) {
          const int reader = net_.reader(v, i);
          needed = holds(reader) && rerun[reader - first_];
        }
      }
      rerun[l - first_] = needed;
    }
  }

  /// The stage of a value's last reader: it sums its readers' gradients before it sends them.
  constexpr int top_stage(int v) const { return stage_of(net_.reader(v, net_.values[v].readers - 1)); }
  /// The number of gradients that come back for a value of this stage: one from the top stage, and one from each reader
  /// in the stages between.
  constexpr int returns(int v) const {
    const int top = top_stage(v);
    int count = 1;
    for (int i = 0; i < net_.values[v].readers; ++i) {
      const int reader = net_.reader(v, i);
      count += reader >= last_ && stage_of(reader) != top;
    }
    return count;
  }
  /// The index, among those gradients, of the one from the value's `i`-th reader, in this stage; 0 in the top stage.
  constexpr int return_of(int v, int i) const {
    const int top = top_stage(v);
    if (top == stage_) return 0;
    int index = 1;
    for (int j = i + 1; j < net_.values[v].readers; ++j) index += stage_of(net_.reader(v, j)) != top;
    return index;
  }

  /// The writer of a value that enters the stage: the stage before, an earlier one, or none, because it is data.
  enum class origin : std::uint8_t { outside, next, skip };
  constexpr origin origin_of(int v) const {
    const int writer = net_.values[v].writer;
    if (writer < 0) return origin::outside;
    return stage_of(writer) == stage_ - 1 ? origin::next : origin::skip;
  }
  /// Whether a value enters from an earlier stage than the one before, or a gradient comes from after the next stage.
  constexpr bool skipped() const {
    for (int l = first_; l < last_; ++l) {
      for (int i = 0; i < net_.layers[l].reads; ++i)
        if (const int v = net_.reads_value(l, i); net_.values[v].writer < first_ && origin_of(v) == origin::skip)
          return true;
      for (int o = 0; o < net_.layers[l].writes; ++o)
        if (const int v = net_.writes_value(l, o); net_.values[v].gradient && sent(v))
          for (int k = 0; k < returns(v); ++k)
            if (!returned_by_next(v, k)) return true;
    }
    return false;
  }
  /// The stage that sends the `k`-th of the gradients that come back for a value of this stage; see `return_of`.
  constexpr int return_stage(int v, int k) const {
    const int top = top_stage(v);
    for (int j = net_.values[v].readers - 1; k > 0 && j >= 0; --j)
      if (const int stage = stage_of(net_.reader(v, j)); stage != top && --k == 0) return stage;
    return top;
  }
  /// Whether the next stage sends that gradient.
  constexpr bool returned_by_next(int v, int k) const { return return_stage(v, k) == stage_ + 1; }

  /// Whether two stages are equal except for their position: the same layers, connected equally inside and at the ends.
  /// (It looks at every layer of a model, mostly at compile time, so the loops call no functions.)
  constexpr bool matches(const stage_view& candidate) const {
    const int n = last_ - first_;
    if (candidate.last_ - candidate.first_ != n) return false;
    const detail::expanded_layer *layers = net_.layers + first_, *candidate_layers = net_.layers + candidate.first_;
    if (layers[0].type != candidate_layers[0].type || layers[n - 1].type != candidate_layers[n - 1].type) return false;
    for (int k = 0; k < n; ++k) {
      if (layers[k].type != candidate_layers[k].type) return false;
      const int recompute = recomputed_before(first_ + k),
                candidate_recompute = candidate.recomputed_before(candidate.first_ + k);
      if (recompute < 0 ? candidate_recompute >= 0 : recompute - first_ != candidate_recompute - candidate.first_)
        return false;
    }

    // Layers of equal types read and write equally many values, which are numbered in order.
    const detail::expanded_layer &first = layers[0], &end = layers[n - 1];
    const int read_count = end.first_read + end.reads - first.first_read;
    const int begin = first.first_write, shift = candidate_layers[0].first_write - begin;  // lower values enter
    const detail::read *layer_reads = net_.reads + first.first_read,
                       *candidate_reads = net_.reads + candidate_layers[0].first_read;
    int inside = 0;
    for (int r = 0; r < read_count; ++r) {
      const int v = layer_reads[r].value, w = candidate_reads[r].value;
      if (v >= begin && w == v + shift) ++inside;
      else if (v >= begin || w >= begin + shift || !enters_equally(v, first.first_read + r, candidate, w)) return false;
    }

    // The remaining reads of values written here are by later stages. Usually such values are written last.
    int v = end.first_write + end.writes - 1;
    int leave = reads_before(v + 1) - reads_before(begin) - inside;
    if (reads_before(v + 1 + shift) - reads_before(begin + shift) - inside != leave) return false;
    for (; leave > 0; --v) {
      const detail::value& value = net_.values[v];
      int leaving = 0;
      while (leaving < value.readers && net_.reader(v, value.readers - 1 - leaving) >= last_) ++leaving;
      if (leaving == 0) continue;
      if (value.readers != net_.values[v + shift].readers || returns(v) != candidate.returns(v + shift)) return false;
      for (int k = 0; value.gradient && k < returns(v); ++k)
        if (returned_by_next(v, k) != candidate.returned_by_next(v + shift, k)) return false;
      leave -= leaving;
    }
    return true;
  }

 private:
  constexpr int stage_of(int layer) const {
    if (!separate_) return cut_.stage_of(layer);
    return layer < first_ ? layer : layer < last_ ? first_ : layer - last_ + first_ + 1;
  }
  /// The number of reads of the values below `v`.
  constexpr int reads_before(int v) const {
    return v < net_.value_count ? net_.values[v].first_reader : net_.read_count;
  }
  constexpr bool enters_equally(int v, int read, const stage_view& candidate, int w) const {
    const int l = net_.reads[read].layer_index, k = l - first_ + candidate.first_, i = read - net_.layers[l].first_read;
    const int index = reader_index(v, l, i), candidate_index = candidate.reader_index(w, k, i);
    return net_.values[v].gradient == net_.values[w].gradient && origin_of(v) == candidate.origin_of(w) &&
           reads_first(v, index) == candidate.reads_first(w, candidate_index) &&
           adds(v, index) == candidate.adds(w, candidate_index);
  }

  const network& net_;
  gpipe::cut cut_{};
  int stage_, first_, last_;
  bool separate_ = false;
};

}  // namespace gpipe
