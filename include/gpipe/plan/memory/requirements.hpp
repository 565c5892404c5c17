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

/// Places for what the stage next to one writes there, and for what any other does.
struct places_for {
  int next = 1;
  int skip = 1;

  constexpr bool operator==(const places_for&) const = default;
};

/// Places for what goes to workers that share no memory with this one: activations to the next stage, gradients to the
/// one before, and either to any other. 0: nothing does, and if no other may, all share memory.
struct outgoing_places {
  int next = 0, back = 0, skip = 0;

  constexpr bool operator==(const outgoing_places&) const = default;
};

/// What the memory of a stage depends on beside the cut.
struct memory_terms {
  int micro_batches = 1;  ///< of all replicas: a stage holds what is told of each
  int micro_batch_size = 1;
  int in_flight = 1;    ///< micro-batches that are forward here and whose parameter gradients are not done
  int kept_copies = 1;  ///< micro-batches whose kept activations are held: 1 with recompute, else all in flight
  int moments = 0;      ///< arrays of the parameters' size that the optimizer asks for
  bool split = false;   ///< backward is split in every stage; else in those that send gradients
  int held = 0;         ///< micro-batches that are between backward's two parts; 0: the one follows the other
  places_for stash{};     ///< activations of earlier stages
  places_for returned{};  ///< gradients of later stages
  outgoing_places outgoing{};
  bool trains = true;     ///< else parameters have no gradients
  int others = 0;         ///< replicas that share no memory with this one

  constexpr bool apart() const { return outgoing.skip > 0; }
  constexpr bool operator==(const memory_terms&) const = default;
};

}  // namespace gpipe
