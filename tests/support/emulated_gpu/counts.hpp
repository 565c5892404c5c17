#pragma once

#include <cstdint>
#include <string>
#include <vector>

// Counts of a program's kernels, for a program that runs with EMULATED_COUNTS=1 in its environment. Its products by
// cuBLASLt are counted, too, and not computed: their results are what was in memory.

namespace emulated {

enum pipe { single, doubles, integers, special, tensor, load_store, control, pipes };

/// Counts of a launch, of the blocks that ran. Instructions are a warp's: one for its lanes that are there together.
/// The paths of a warp join where the blocks of instructions do (see counts.py).
struct launch_counts {
  std::string kernel, module_path;  ///< its mangled name; a file with its PTX
  std::uint64_t blocks = 0;         ///< of the grid
  std::uint64_t ran = 0;            ///< of them, in the sample
  std::uint64_t threads = 0;        ///< of a block
  std::uint64_t shared_bytes = 0;   ///< of a block
  std::uint64_t of_pipe[pipes]{};   ///< instructions; of the tensor cores: multiply-adds
  std::uint64_t issued = 0;         ///< instructions of all pipes
  std::uint64_t divergent = 0;      ///< of them, without all lanes that have not ended
  std::uint64_t barriers = 0;
  std::uint64_t sectors = 0;          ///< of 32 bytes of global memory, over all accesses
  std::uint64_t needed_sectors = 0;   ///< the same if each access's bytes were together
  std::uint64_t shared_accesses = 0;  ///< instructions
  std::uint64_t wavefronts = 0;       ///< of the shared memory: passes over its 32 banks
  std::uint64_t conflicts = 0;        ///< of them, only because lanes want other words of one bank
  std::uint64_t extra_passes = 0;     ///< of all accesses, beyond one for each: 128 bytes fit into a pass
  std::uint64_t rounds = 0;           ///< between barriers, with a load of global memory; over all blocks
  double moved_bytes = 0;             ///< scaled to the grid: each block's sectors once, but no allocation twice
  std::uint64_t m = 0, n = 0, k = 0, element_bytes = 0;  ///< of a product

  double scale() const { return static_cast<double>(blocks) / static_cast<double>(ran); }
};

bool counting();

/// The blocks of a launch that run, at most, spread over its grid: the program sees their results alone.
extern std::uint64_t most_blocks;

/// The launches and products since the last call, in their order.
std::vector<launch_counts> take_counts();

}  // namespace emulated
