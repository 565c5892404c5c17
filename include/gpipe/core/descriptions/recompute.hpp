#pragma once

namespace gpipe {

// change: a recompute mode
/// Selects what runs forward a second time before backward: whole micro-batches, which keep only their boundary input,
/// or, with `as_needed`, also single layers.
enum class recompute_mode {
  always,       ///< every micro-batch
  except_last,  ///< all but those that need no extra memory: if a stage's backward follows its forward directly, the
                ///< working set is still in memory. In fill-drain this is the stage's last forward micro-batch
  never,        ///< none: every micro-batch in flight keeps a full working set
  as_needed,    ///< the fastest choice with which a stage fits into its memory: layers of every micro-batch, or as
                ///< few whole micro-batches as possible
};

/// The name of the mode in options and reports.
constexpr const char* name_of(recompute_mode mode) {
  constexpr const char* names[] = {"always", "except-last", "never", "as-needed"};
  return names[static_cast<int>(mode)];
}

}  // namespace gpipe
