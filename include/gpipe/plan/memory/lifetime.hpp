#pragma once

#include <gpipe/plan/stages/stage_view.hpp>

namespace gpipe::detail {

/// The lifetimes of a stage's buffers while it works on one micro-batch:
///
///     forward         copies   backward: input parts   parameter parts
///     first ... last  to send  last ... first          last ... first
///
/// - A *kept* value (extra, input, output) is written in forward and dies with the last part of backward that reads it.
///   A recompute writes it again, in the same order.
/// - An *activation* that only forward reads dies with its last reader; one that is sent dies when it is copied.
/// - The *gradient* of a value is born when its last reader writes it and dies when its writer has read it.
/// - A *workspace* lives in one part of a layer's backward: the input part, or the parameter part if no input has a
///   gradient, because then only that part runs.
/// - *Forward's workspace* lives in one call of forward, the first one or a recompute.
/// - *Backward's extras* are born in a layer's backward and die with its parameter part.
/// - An output of a *recomputed* layer is an activation in forward. It is written again before the backward of the
/// layer
///   that reads it first, and dies with the last part of backward, or the last recompute, that reads it.
/// - The parameter part of a layer comes at once. In a *split* backward it comes after all input parts, and until then
///   its operands live: the kept input, output and extras of a layer with parameters, backward's extras and its
///   output's gradient. If one of them is written again in backward, the parameter part comes right after the input
///   part.
///
/// An activation and a gradient are never alive together: only kept values of a micro-batch live from forward to
/// backward. Values from and for other stages (stash, returned gradients) are not on this time line.
class lifetimes {
 public:
  constexpr lifetimes(const stage_view& stage, bool split) : s_(stage), net_(stage.net()), split_(split) {}

  /// Whether the layer's parameter part comes after all input parts.
  constexpr bool waits(int l) const { return split_ && net_.type_of(l).parameter_count > 0 && !s_.reads_recomputed(l); }

  /// The layer whose backward is the last to read a value that the stage keeps; -1: none does. A recomputed layer
  /// counts as reading its inputs.
  GPIPE_COLD constexpr int holder(int v) const {
    const value& value = net_.values[v];
    int found = -1;
    if (net_.type_of(value.writer).keeps.output) {
      found = value.writer;
      if (!split_ || waits(found)) return found;
    }
    for (int i = 0; i < value.readers; ++i) {
      const int reader = net_.reader(v, i);
      if (reader >= s_.last()) break;
      const bool back = net_.type_of(reader).keeps.input;
      if (!back && !s_.recomputed(reader)) continue;
      if (!split_ || (back && waits(reader))) return reader;
      if (found < 0) found = reader;
    }
    return found;
  }

  /// Calls `f(v)` for the values whose holder is layer `l`.
  template <class F>
  GPIPE_COLD constexpr void held(int l, F&& f) const {
    const layer_type& r = net_.type_of(l);
    if (r.keeps.output)
      for (int o = 0; o < r.outputs; ++o)
        if (const int v = net_.writes_value(l, o); s_.kept(v) && holder(v) == l) f(v);
    if (!r.keeps.input && !s_.recomputed(l)) return;
    for (int i = 0; i < r.inputs; ++i) {
      const int v = net_.reads_value(l, i);
      if (net_.values[v].writer < s_.first() || !s_.kept(v) || holder(v) != l) continue;
      bool first = true;
      for (int j = 0; j < i; ++j) first = first && net_.reads_value(l, j) != v;
      if (first) f(v);
    }
  }

  /// Forward: `f(v)` for the activations that layer `l` writes.
  template <class F>
  GPIPE_COLD constexpr void activated(int l, F&& f) const {
    for (int o = 0; o < net_.layers[l].writes; ++o)
      if (const int v = net_.writes_value(l, o); !s_.kept(v) && !s_.direct(v)) f(v);
  }
  /// ... and for the activations that no later layer needs.
  template <class F>
  GPIPE_COLD constexpr void dies_after_forward(int l, F&& f) const {
    for (int i = 0; i < net_.layers[l].reads; ++i)
      if (const int v = net_.reads_value(l, i); s_.writes(v) && closes(v, l, i) && !s_.kept(v)) f(v);
    for (int o = 0; o < net_.layers[l].writes; ++o)
      if (const int v = net_.writes_value(l, o); net_.values[v].readers == 0 && !s_.kept(v)) f(v);
  }

  /// The layer in whose backward, or in a recompute before it, a recomputed value is read for the last time.
  GPIPE_COLD constexpr int last_reader(int v) const {
    const value& value = net_.values[v];
    int found = s_.recomputed_before(value.writer);
    const auto reads = [&found](int l) {
      if (l < found) found = l;
    };
    if (net_.type_of(value.writer).keeps.output) reads(value.writer);
    for (int i = 0; i < value.readers; ++i) {
      const int reader = net_.reader(v, i);
      if (reader >= s_.last()) break;
      if (net_.type_of(reader).keeps.input) reads(reader);
      if (s_.recomputed(reader)) reads(s_.recomputed_before(reader));
    }
    return found;
  }

  /// Backward: `f(v)` for the values whose gradient is born at layer `l`.
  template <class F>
  GPIPE_COLD constexpr void differentiated(int l, F&& f) const {
    for (int o = 0; o < net_.layers[l].writes; ++o)  // zeros, because the value has no reader
      if (const int v = net_.writes_value(l, o); net_.values[v].gradient && net_.values[v].readers == 0) f(v);
    for (int i = 0; i < net_.layers[l].reads; ++i)
      if (const int v = net_.reads_value(l, i); net_.values[v].gradient && s_.writes(v) && closes(v, l, i)) f(v);
  }
  /// ... and for the values whose gradient layer `l`, their writer, is the last to read.
  template <class F>
  GPIPE_COLD constexpr void consumed(int l, F&& f) const {
    for (int o = 0; o < net_.layers[l].writes; ++o)
      if (const int v = net_.writes_value(l, o); net_.values[v].gradient && !s_.sent(v)) f(v);
  }
  /// Bytes of the gradients that layer `l` writes to scratch memory and adds to the gradients of other readers.
  GPIPE_COLD constexpr std::size_t added_bytes(int l, int samples) const {
    std::size_t sum = 0;
    for (int i = 0; i < net_.layers[l].reads; ++i) {
      const int v = net_.reads_value(l, i);
      if (net_.values[v].gradient && (s_.writes(v) ? !closes(v, l, i) : s_.adds(v, s_.reader_index(v, l, i))))
        sum += net_.values[v].part.bytes(samples);
    }
    return sum;
  }

  /// Whether the layer's workspace is used in a parameter part that comes after all input parts.
  GPIPE_COLD constexpr bool works_late(int l) const {
    bool wanted = false;
    for (int i = 0; i < net_.layers[l].reads; ++i) wanted = wanted || net_.values[net_.reads_value(l, i)].gradient;
    return waits(l) && !wanted;
  }

 private:
  /// Whether input `i` of layer `l` is the last of all that read the value.
  constexpr bool closes(int v, int l, int i) const {
    const value& value = net_.values[v];
    return net_.readers[value.first_reader + value.readers - 1] == net_.layers[l].first_read + i;
  }

  const stage_view& s_;
  const network& net_;
  bool split_;
};

}  // namespace gpipe::detail
