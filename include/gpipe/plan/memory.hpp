#pragma once

#include <gpipe/plan/cut.hpp>

namespace gpipe {

/// What a stage's arena holds, in the order in which it lies there.
///
///     | parameters | gradients | moments | derived | partials | stash | kept | activations | backward | returned | scratch |
///       one flat array each: an update is one call            |         one micro-batch, or as many as are in flight
enum class memory_kind : std::uint8_t {
  parameters,
  gradients,
  moments,      ///< of the optimizer
  derived,      ///< made from the parameters after each commit: packed weights
  partials,     ///< one number a micro-batch: loss, weight
  stash,        ///< what enters the stage, for each micro-batch in flight
  kept,         ///< what backward reads again
  activations,  ///< what only forward reads
  backward,     ///< gradients between the stage's layers
  returned,     ///< gradients from later stages
  scratch,      ///< further gradients of a value with several readers
};
inline constexpr int memory_kinds = 11;

constexpr const char* name_of(memory_kind kind) {
  constexpr const char* names[] = {"parameters", "gradients", "moments",  "derived",  "partials", "stash",
                                   "kept",       "activations", "backward", "returned", "scratch"};
  return names[static_cast<int>(kind)];
}

/// One buffer of the arena: `copies` times `bytes`, from `offset` on. `id` is a slot, or for values (stash,
/// activations, kept, backward, returned) `value`; `index` tells several of one id apart.
struct memory_block {
  memory_kind kind{};
  int slot = -1, value = -1, index = 0;
  std::size_t offset = 0, bytes = 0;
  int copies = 1;
};

/// Bytes of a stage by kind.
struct stage_memory {
  std::int64_t bytes[memory_kinds]{};

  constexpr std::int64_t of(memory_kind kind) const { return bytes[static_cast<int>(kind)]; }
  constexpr std::int64_t total() const {
    std::int64_t sum = 0;
    for (const std::int64_t b : bytes) sum += b;
    return sum;
  }
  constexpr void add(const memory_block& block) {
    bytes[static_cast<int>(block.kind)] +=
        static_cast<std::int64_t>(block.bytes) * static_cast<std::int64_t>(block.copies);
  }
};

/// What the memory of a stage depends on beside the cut.
struct memory_terms {
  int micro_batches = 1;
  int micro_batch_size = 1;
  int in_flight = 1;    ///< micro-batches whose boundary inputs are held
  int kept_copies = 1;  ///< micro-batches whose kept activations are held: 1 with recompute, else all in flight
  int moments = 0;      ///< arrays of the parameters' size that the optimizer asks for
};

/// Gradients from a later stage arrive while the one before is still read.
inline constexpr int returned_slots = 2;

/// Lays a stage's arena out, block by block: `sink(const memory_block&)`. The same walk tells the plan how many bytes
/// there are and the executor where they lie.
template <class Sink>
GPIPE_ONCE constexpr void lay_out(const stage_view& s, const memory_terms& terms, Sink&& sink) {
  const network& net = s.net();
  const int samples = terms.micro_batch_size;
  const int slots_returned = terms.micro_batches < returned_slots ? terms.micro_batches : returned_slots;
  std::size_t at = 0;
  const auto put = [&](memory_block block) {
    block.offset = at;
    at += block.bytes * static_cast<std::size_t>(block.copies);
    sink(static_cast<const memory_block&>(block));
  };
  const auto bytes_of_value = [&](int v) { return net.values[v].part.bytes(samples); };

  detail::scratch<bool> rerun(s.last() - s.first());
  s.mark_rerun(rerun.data());

  // Every slot has a block of parameters, if an empty one, so that its address is known.
  for (int l = s.first(); l < s.last(); ++l)
    put({memory_kind::parameters, l, -1, 0, 0, net.row_of(l).parameter_bytes()});
  for (int l = s.first(); l < s.last(); ++l)
    put({memory_kind::gradients, l, -1, 0, 0, net.row_of(l).parameter_bytes()});
  for (int i = 0; i < terms.moments; ++i)
    for (int l = s.first(); l < s.last(); ++l)
      put({memory_kind::moments, l, -1, i, 0, net.row_of(l).parameter_bytes()});
  for (int l = s.first(); l < s.last(); ++l)
    if (net.row_of(l).derived_count > 0) put({memory_kind::derived, l, -1, 0, 0, net.row_of(l).derived_bytes()});
  for (int l = s.first(); l < s.last(); ++l)
    if (net.row_of(l).partial_count > 0)
      put({memory_kind::partials, l, -1, 0, 0,
           aligned(sizeof(double) * static_cast<std::size_t>(net.row_of(l).partial_count)), terms.micro_batches});

  for (int l = s.first(); l < s.last(); ++l) {
    for (int i = 0; i < net.slots[l].reads; ++i) {
      const int v = net.reads_value(l, i);
      if (s.boundary(v) && s.reads_first(v, s.reader_index(v, l, i)))
        put({memory_kind::stash, -1, v, 0, 0, bytes_of_value(v), terms.in_flight});
    }
    const row& r = net.row_of(l);
    for (int i = 0; i < r.field_count; ++i)
      put({memory_kind::stash, l, -1, i, 0, edge_part{r.fields[i].size, r.fields[i].type}.bytes(samples),
           terms.in_flight});
  }

  for (int l = s.first(); l < s.last(); ++l) {
    if (net.row_of(l).extra_count > 0)
      put({memory_kind::kept, l, -1, 0, 0, net.row_of(l).extra_bytes(samples), terms.kept_copies});
    for (int o = 0; o < net.slots[l].writes; ++o) {
      const int v = net.writes_value(l, o);
      if (s.kept(v)) put({memory_kind::kept, -1, v, 0, 0, bytes_of_value(v), terms.kept_copies});
    }
  }
  for (int l = s.first(); l < s.last(); ++l)
    for (int o = 0; o < net.slots[l].writes; ++o) {
      const int v = net.writes_value(l, o);
      if (!s.kept(v) && !s.direct(v, rerun.data())) put({memory_kind::activations, -1, v, 0, 0, bytes_of_value(v)});
    }

  for (int l = s.first(); l < s.last(); ++l)
    for (int o = 0; o < net.slots[l].writes; ++o) {
      const int v = net.writes_value(l, o);
      if (net.values[v].gradient && !s.sent(v)) put({memory_kind::backward, -1, v, 0, 0, bytes_of_value(v)});
    }
  for (int l = s.first(); l < s.last(); ++l)
    for (int o = 0; o < net.slots[l].writes; ++o) {
      const int v = net.writes_value(l, o);
      if (!net.values[v].gradient || !s.sent(v)) continue;
      for (int k = 0; k < s.returns(v); ++k)
        put({memory_kind::returned, -1, v, k, 0, bytes_of_value(v), slots_returned});
    }

  std::size_t most = 0;
  for (int l = s.first(); l < s.last(); ++l) {
    std::size_t sum = 0;
    for (int i = 0; i < net.slots[l].reads; ++i) {
      const int v = net.reads_value(l, i);
      if (net.values[v].gradient && s.adds(v, s.reader_index(v, l, i))) sum += bytes_of_value(v);
    }
    most = sum > most ? sum : most;
  }
  if (most > 0) put({memory_kind::scratch, -1, -1, 0, 0, most});
}

/// The bytes of a stage, by kind.
constexpr stage_memory memory_of(const stage_view& s, const memory_terms& terms) {
  stage_memory sum;
  lay_out(s, terms, [&sum](const memory_block& block) { sum.add(block); });
  return sum;
}

}  // namespace gpipe
