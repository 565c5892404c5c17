#pragma once

#include <cstddef>
#include <cstdint>

namespace gpipe {

/// The kinds of memory in a stage's arena, in their order.
///
///     | parameters | gradients | moments | arrays | averages | tied | state | derived | partials | sums | stash |
///       one flat array each: an update is one call
///     | returned | outgoing | landing | held | kept ... transient |
///                                   the working set
///
/// The working set belongs to one micro-batch. Values kept for backward lie at its lower end, the longest needed first.
/// Short-lived values are stacked from its upper end, down to where nothing is kept yet, or no longer. If several
/// micro-batches keep theirs, each has its own kept part; gradients use free bytes there first, and the rest is shared.
/// A stage runs nothing else between a micro-batch's recompute and its backward. With one set, it runs nothing else
/// between the forward and the backward of a micro-batch that is not recomputed.
enum class memory_kind : std::uint8_t {
  parameters,
  gradients,
  moments,      ///< of the optimizer: arrays of the size of the replica's share of the parameters
  arrays,       ///< of an optimizer that sees whole tensors: rows, columns
  averages,     ///< moving averages of the parameters
  tied,         ///< values and gradients of parameters that an earlier layer owns, and gradients that arrive for these
  state,        ///< of layers, not trained: moving averages, now and after the step
  derived,      ///< made from the parameters after each commit, or before each kernel: packed weights
  partials,     ///< results of layers for each micro-batch: loss, weight, batch statistics
  sums,         ///< one double per layer: the sum of squares of its gradient
  stash,        ///< inputs of the stage, for each micro-batch in flight
  returned,     ///< gradients from later stages
  outgoing,     ///< values for workers that share no memory with this one, until they have left
  landing,      ///< gradients received from replicas that share no memory with this one
  held,         ///< gradients and backward's extras for parameter parts that the schedule delays
  kept,         ///< values for backward, for each micro-batch that is not recomputed
  transient,    ///< bytes of the following kinds beyond that: they share memory and have no separate counts
  activations,  ///< values and workspaces for forward only
  recomputed,   ///< values, extras and forward's workspaces of recomputed layers, in backward
  backward,     ///< gradients between the stage's layers, and backward's extras
  scratch,      ///< further gradients of a value with several readers
  workspace,    ///< of a layer, for one part of its backward
};
inline constexpr int memory_kinds = 17;  ///< kinds with a count

/// One word, for tables and errors.
constexpr const char* name_of(memory_kind kind) {
  constexpr const char* names[] = {"parameters", "gradients", "moments",  "arrays",   "averages",  "tied",
                                   "state",      "derived",   "partials", "sums",     "stash",     "returned",
                                   "outgoing",   "landing",   "held",     "kept",     "transient", "activations",
                                   "recomputed", "backward",  "scratch",  "workspace"};
  return names[static_cast<int>(kind)];
}

namespace detail {

/// One buffer of the arena: `copies` times `bytes`, from `offset` on, `stride` apart (0: without a gap). It belongs to
/// `layer` or, for stash, returned, held, kept, activations and backward, to `value`; `index` numbers several of one: a
/// layer's workspace in forward, or in its recompute, has 1, after its extras.
struct memory_block {
  memory_kind kind{};
  int layer_index = -1, value = -1, index = 0;
  std::size_t offset = 0, bytes = 0;
  int copies = 1;
  std::size_t stride = 0;
};

}  // namespace detail

/// Bytes of a stage by kind.
struct stage_memory {
  std::int64_t bytes[memory_kinds]{};
  std::int64_t naive = 0;        ///< if each buffer had its own memory
  std::int64_t share = 0;        ///< of the parameters whose optimizer state a replica keeps, at most
  std::int64_t lower_bound = 0;  ///< the maximum that is alive at one time: no layout needs less
  std::int64_t kept_set = 0;     ///< the kept bytes of one micro-batch, among them
  std::int64_t kept_late = 0;    ///< the lower ones, which parameter parts read after all input parts

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
