#pragma once

#include <gpipe/core/zeroed_array.hpp>
#include <gpipe/model/graph.hpp>

namespace gpipe {

/// Where a model is cut: stage s holds the slots [first[s], first[s + 1]).
struct cut {
  const int* first = nullptr;
  int stages = 0;

  /// The stage of a slot; -1 for what enters from outside (slot -1).
  constexpr int stage_of(int slot) const {
    if (slot < 0) return -1;
    int low = 0, high = stages;
    while (high - low > 1) {
      const int middle = (low + high) / 2;
      (first[middle] <= slot ? low : high) = middle;
    }
    return low;
  }
};

/// One stage of a cut model, and what it must know of each value that it writes or reads.
class stage_view {
 public:
  constexpr stage_view(const network& net, gpipe::cut cut, int stage)
      : net_(net), cut_(cut), stage_(stage), first_(cut.first[stage]), last_(cut.first[stage + 1]) {}
  /// The slots [first, last) as a stage, and every other slot as one of its own: of no cut with this stage does more
  /// come back to it, or go apart from it.
  constexpr stage_view(const network& net, int first, int last)
      : net_(net), stage_(first), first_(first), last_(last), apart_(true) {}

  constexpr int first() const { return first_; }
  constexpr int last() const { return last_; }
  constexpr int stage() const { return stage_; }
  constexpr const network& net() const { return net_; }
  constexpr bool holds(int slot) const { return slot >= first_ && slot < last_; }
  /// Whether the stage writes the value.
  constexpr bool writes(int v) const { return holds(net_.values[v].writer); }

  /// Readers of a value inside the stage.
  constexpr int local_readers(int v) const {
    int count = 0;
    for (int i = 0; i < net_.values[v].readers; ++i) count += holds(net_.reader(v, i));
    return count;
  }
  /// Whether a later stage reads the value.
  constexpr bool sent(int v) const {
    const value& of = net_.values[v];
    return of.readers > 0 && holds(of.writer) && net_.reader(v, of.readers - 1) >= last_;
  }
  /// Whether the next stage has the `i`-th reader of a value.
  constexpr bool read_by_next(int v, int i) const { return stage_of(net_.reader(v, i)) == stage_ + 1; }
  /// Whether the stage's backward reads the value again.
  constexpr bool kept(int v) const {
    const value& of = net_.values[v];
    if (holds(of.writer) && net_.row_of(of.writer).keeps.output) return true;
    for (int i = 0; i < of.readers; ++i)
      if (holds(net_.reader(v, i)) && net_.row_of(net_.reader(v, i)).keeps.input) return true;
    return false;
  }
  /// Written straight into the receiver's stash: nobody here reads anything that its writer writes, neither now nor in
  /// backward, so no recompute writes it again.
  constexpr bool direct(int v) const {
    if (!sent(v)) return false;
    const slot& writer = net_.slots[net_.values[v].writer];
    if (net_.rows[writer.row].extra_count > 0) return false;
    for (int o = 0; o < writer.writes; ++o) {
      const value& of = net_.values[writer.first_write + o];
      if (of.readers > 0 && net_.reader(writer.first_write + o, 0) < last_) return false;
      if (kept(writer.first_write + o)) return false;
    }
    return true;
  }
  /// Whether a gradient leaves the stage: then its backward sends it before the parameter part.
  constexpr bool sends_gradients() const {
    for (int l = first_; l < last_ && first_ > 0; ++l)
      for (int i = 0; i < net_.slots[l].reads; ++i)
        if (const value& of = net_.values[net_.reads_value(l, i)]; of.writer < first_ && of.gradient) return true;
    return false;
  }
  /// Enters the stage: written by an earlier one, or from outside.
  constexpr bool boundary(int v) const { return net_.values[v].writer < first_ && local_readers(v) > 0; }
  /// Which of a value's readers, in model order, input `i` of slot `l` is.
  constexpr int reader_index(int v, int l, int i) const {
    const int* readers = net_.readers + net_.values[v].first_reader;
    int index = 0;
    while (readers[index] != net_.slots[l].first_read + i) ++index;
    return index;
  }
  /// Whether the stage reads the value there for the first time.
  constexpr bool reads_first(int v, int index) const { return index == 0 || !holds(net_.reader(v, index - 1)); }
  /// Whether that reader's gradient is added to what other readers have left. Gradients are folded from the last
  /// reader to the first, wherever the cuts are: a stage sends apart what it may not fold before an earlier one.
  constexpr bool adds(int v, int index) const {
    const bool later_here = index + 1 < net_.values[v].readers && holds(net_.reader(v, index + 1));
    if (holds(net_.values[v].writer)) return later_here || sent(v);
    return later_here && top_stage(v) == stage_;
  }

  /// Marks the slots that a recompute must run: those that make what backward needs, and what they read.
  constexpr void mark_rerun(bool* rerun) const {
    for (int l = last_ - 1; l >= first_; --l) {
      bool needed = net_.row_of(l).extra_count > 0;
      for (int o = 0; o < net_.slots[l].writes && !needed; ++o) {
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

  /// The stage of a value's last reader: it folds its readers' gradients before it sends them.
  constexpr int top_stage(int v) const {
    return stage_of(net_.reader(v, net_.values[v].readers - 1));
  }
  /// Gradients that come back for a value sent by this stage: one from the top stage, one from each other reader.
  constexpr int returns(int v) const {
    const int top = top_stage(v);
    int count = 1;
    for (int i = 0; i < net_.values[v].readers; ++i) {
      const int reader = net_.reader(v, i);
      count += reader >= last_ && stage_of(reader) != top;
    }
    return count;
  }
  /// Which of those gradients the `i`-th reader of a value, in this stage, makes: 0 if this is the top stage.
  constexpr int return_of(int v, int i) const {
    const int top = top_stage(v);
    if (top == stage_) return 0;
    int index = 1;
    for (int j = i + 1; j < net_.values[v].readers; ++j) index += stage_of(net_.reader(v, j)) != top;
    return index;
  }

  /// Who writes a value that enters the stage: the stage before it, one further back, or nobody, for it is data.
  enum class origin : std::uint8_t { outside, next, skip };
  constexpr origin origin_of(int v) const {
    const int writer = net_.values[v].writer;
    if (writer < 0) return origin::outside;
    return stage_of(writer) == stage_ - 1 ? origin::next : origin::skip;
  }
  /// Whether a value enters from further back than the stage before, or a gradient comes from behind the next one.
  constexpr bool skipped() const {
    for (int l = first_; l < last_; ++l) {
      for (int i = 0; i < net_.slots[l].reads; ++i)
        if (const int v = net_.reads_value(l, i); net_.values[v].writer < first_ && origin_of(v) == origin::skip)
          return true;
      for (int o = 0; o < net_.slots[l].writes; ++o)
        if (const int v = net_.writes_value(l, o); net_.values[v].gradient && sent(v))
          for (int k = 0; k < returns(v); ++k)
            if (!returned_by_next(v, k)) return true;
    }
    return false;
  }
  /// The stage that makes the `k`-th gradient which comes back for a value sent by this one; see `return_of`.
  constexpr int returner(int v, int k) const {
    const int top = top_stage(v);
    for (int j = net_.values[v].readers - 1; k > 0 && j >= 0; --j)
      if (const int stage = stage_of(net_.reader(v, j)); stage != top && --k == 0) return stage;
    return top;
  }
  /// Whether the next stage makes it.
  constexpr bool returned_by_next(int v, int k) const { return returner(v, k) == stage_ + 1; }

  /// Whether two stages are the same but for their place: the same layers, wired alike inside and at the ends. (It
  /// looks at every slot of a model, mostly at compile time: so the loops call nothing.)
  constexpr bool alike(const stage_view& other) const {
    const int n = last_ - first_;
    if (other.last_ - other.first_ != n) return false;
    const slot *mine = net_.slots + first_, *theirs = net_.slots + other.first_;
    if (mine[0].row != theirs[0].row || mine[n - 1].row != theirs[n - 1].row) return false;
    for (int k = 0; k < n; ++k)
      if (mine[k].row != theirs[k].row) return false;

    // Equal rows read and write as many values, and these are numbered in order.
    const slot &first = mine[0], &end = mine[n - 1];
    const int reads = end.first_read + end.reads - first.first_read;
    const int begin = first.first_write, shift = theirs[0].first_write - begin;  // lower values enter
    const read *own_reads = net_.reads + first.first_read, *their_reads = net_.reads + theirs[0].first_read;
    int inside = 0;
    for (int r = 0; r < reads; ++r) {
      const int v = own_reads[r].value, w = their_reads[r].value;
      if (v >= begin && w == v + shift) ++inside;
      else if (v >= begin || w >= begin + shift || !enters_alike(v, first.first_read + r, other, w)) return false;
    }

    // What more reads there are of what is written here leaves. Mostly it is written last.
    int v = end.first_write + end.writes - 1;
    int leave = reads_before(v + 1) - reads_before(begin) - inside;
    if (reads_before(v + 1 + shift) - reads_before(begin + shift) - inside != leave) return false;
    for (; leave > 0; --v) {
      const value& of = net_.values[v];
      int leaving = 0;
      while (leaving < of.readers && net_.reader(v, of.readers - 1 - leaving) >= last_) ++leaving;
      if (leaving == 0) continue;
      if (of.readers != net_.values[v + shift].readers || returns(v) != other.returns(v + shift)) return false;
      for (int k = 0; of.gradient && k < returns(v); ++k)
        if (returned_by_next(v, k) != other.returned_by_next(v + shift, k)) return false;
      leave -= leaving;
    }
    return true;
  }

 private:
  constexpr int stage_of(int slot) const {
    if (!apart_) return cut_.stage_of(slot);
    return slot < first_ ? slot : slot < last_ ? first_ : slot - last_ + first_ + 1;
  }
  /// Reads of the values below `v`.
  constexpr int reads_before(int v) const {
    return v < net_.value_count ? net_.values[v].first_reader : net_.read_count;
  }
  constexpr bool enters_alike(int v, int read, const stage_view& other, int w) const {
    const int l = net_.reads[read].slot, k = l - first_ + other.first_, i = read - net_.slots[l].first_read;
    const int index = reader_index(v, l, i), theirs = other.reader_index(w, k, i);
    return net_.values[v].gradient == net_.values[w].gradient && origin_of(v) == other.origin_of(w) &&
           reads_first(v, index) == other.reads_first(w, theirs) && adds(v, index) == other.adds(w, theirs);
  }

  const network& net_;
  gpipe::cut cut_{};
  int stage_, first_, last_;
  bool apart_ = false;
};

}  // namespace gpipe
