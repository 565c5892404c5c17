#pragma once

#include <gpipe/model/graph.hpp>
#include <gpipe/plan/scratch.hpp>

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

  constexpr int first() const { return first_; }
  constexpr int last() const { return last_; }
  constexpr int stage() const { return stage_; }
  constexpr const network& net() const { return net_; }
  constexpr bool holds(int slot) const { return slot >= first_ && slot < last_; }

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
  /// Whether the stage's backward reads the value again.
  constexpr bool kept(int v) const {
    const value& of = net_.values[v];
    if (holds(of.writer) && net_.row_of(of.writer).keeps.output) return true;
    for (int i = 0; i < of.readers; ++i)
      if (holds(net_.reader(v, i)) && net_.row_of(net_.reader(v, i)).keeps.input) return true;
    return false;
  }
  /// Written straight into the receiver's stash: nobody here reads it again. (`rerun`: see below.)
  constexpr bool direct(int v, const bool* rerun) const {
    const int writer = net_.values[v].writer;
    return sent(v) && local_readers(v) == 0 && !kept(v) && !rerun[writer - first_];
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
    return cut_.stage_of(net_.reader(v, net_.values[v].readers - 1));
  }
  /// Gradients that come back for a value sent by this stage: one from the top stage, one from each other reader.
  constexpr int returns(int v) const {
    const int top = top_stage(v);
    int count = 1;
    for (int i = 0; i < net_.values[v].readers; ++i) {
      const int reader = net_.reader(v, i);
      count += reader >= last_ && cut_.stage_of(reader) != top;
    }
    return count;
  }
  /// Which of those gradients the `i`-th reader of a value, in this stage, makes: 0 if this is the top stage.
  constexpr int return_of(int v, int i) const {
    const int top = top_stage(v);
    if (top == stage_) return 0;
    int index = 1;
    for (int j = i + 1; j < net_.values[v].readers; ++j) index += cut_.stage_of(net_.reader(v, j)) != top;
    return index;
  }

 private:
  const network& net_;
  gpipe::cut cut_;
  int stage_, first_, last_;
};

}  // namespace gpipe
