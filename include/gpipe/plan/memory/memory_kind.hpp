#pragma once

#include <cstddef>
#include <cstdint>

namespace gpipe {

/// What a stage's arena holds, in the order in which it lies there.
///
///     | parameters | gradients | moments | tied | state | derived | partials | sums | stash | returned |
///       one flat array each: an update is one call
///     | outgoing | landing | held | kept ... transient |
///                                   the working set
///
/// The working set is of one micro-batch: what backward keeps lies at its lower end, first what is needed longest; what
/// lives a moment hangs from its upper end, and comes down to where nothing is kept yet, or no longer. Where several
/// micro-batches keep theirs, each has a set of its own; gradients look for room there first, and the rest is shared.
/// A stage runs nothing else between a micro-batch's recompute and its backward, nor, with one set, between the forward
/// of one that is not recomputed and its backward.
enum class memory_kind : std::uint8_t {
  parameters,
  gradients,
  moments,      ///< of the optimizer
  tied,         ///< values and gradients of parameters that an earlier slot owns; where these arrive from elsewhere
  state,        ///< of layers, not trained: moving averages
  derived,      ///< made from the parameters after each commit: packed weights
  partials,     ///< what layers tell of each micro-batch: loss, weight, batch statistics
  sums,         ///< a double a slot: the squares of its gradient
  stash,        ///< what enters the stage, for each micro-batch in flight
  returned,     ///< gradients from later stages
  outgoing,     ///< what goes to workers that share no memory with this one, until it has left
  landing,      ///< what other replicas give of the gradients that this one sums, if they share no memory with it
  held,         ///< gradients that parameter parts read which the schedule puts off
  kept,         ///< what backward reads again, for each micro-batch that is not recomputed
  transient,    ///< what the following need beyond that: they share memory, and are not counted apart
  activations,  ///< what only forward reads
  backward,     ///< gradients between the stage's layers
  scratch,      ///< further gradients of a value with several readers
};
inline constexpr int memory_kinds = 15;  ///< that are counted

/// In a word, for tables and errors.
constexpr const char* name_of(memory_kind kind) {
  constexpr const char* names[] = {"parameters", "gradients",   "moments",  "tied",   "state",
                                   "derived",    "partials",    "sums",     "stash",  "returned",
                                   "outgoing",   "landing",     "held",     "kept",   "transient",
                                   "activations", "backward",   "scratch"};
  return names[static_cast<int>(kind)];
}

/// One buffer of the arena: `copies` times `bytes`, from `offset` on, `stride` apart (0: without a gap). `slot` or, for
/// values (stash, returned, held, kept, activations, backward), `value` tell whose; `index` tells several of one apart.
struct memory_block {
  memory_kind kind{};
  int slot = -1, value = -1, index = 0;
  std::size_t offset = 0, bytes = 0;
  int copies = 1;
  std::size_t stride = 0;
};

/// Bytes of a stage by kind.
struct stage_memory {
  std::int64_t bytes[memory_kinds]{};
  std::int64_t naive = 0;        ///< if each buffer had memory of its own
  std::int64_t lower_bound = 0;  ///< the most that is alive at one time: no layout needs less

  constexpr std::int64_t of(memory_kind kind) const { return bytes[static_cast<int>(kind)]; }
  constexpr std::int64_t total() const { return before(memory_kinds); }
  /// Bytes of the kinds that lie below.
  constexpr std::int64_t before(int kind) const {
    std::int64_t sum = 0;
    for (int k = 0; k < kind; ++k) sum += bytes[k];
    return sum;
  }
};

}  // namespace gpipe
