#pragma once

namespace gpipe {

/// Which micro-batches keep only their boundary input and run forward a second time before backward.
enum class recompute_mode {
  always,       ///< every micro-batch
  except_last,  ///< all but those that cost no memory: where a stage's backward comes right after forward, the working
                ///< set is still there. In fill-drain this is the micro-batch that a stage forwards last
  never,        ///< none: every micro-batch in flight keeps a whole working set
  as_needed,    ///< the fewest for which a stage's working sets fit the memory that there is
};

/// In words, as options name it.
constexpr const char* name_of(recompute_mode mode) {
  constexpr const char* names[] = {"always", "except-last", "never", "as-needed"};
  return names[static_cast<int>(mode)];
}

}  // namespace gpipe
