#pragma once

namespace gpipe {

/// Which micro-batches keep only their boundary input and run forward a second time before backward.
enum class recompute_mode {
  always,       ///< every micro-batch
  except_last,  ///< all but the one that a stage forwards last: its backward comes next, its working set is still there
  never,        ///< none: every micro-batch in flight keeps a whole working set
};

/// Whether `micro_batch` is recomputed. `forwarded_last` is 0 in fill-drain, which numbers micro-batches from the last.
constexpr bool recomputes(recompute_mode mode, int micro_batch, int forwarded_last = 0) {
  return mode == recompute_mode::always || (mode == recompute_mode::except_last && micro_batch != forwarded_last);
}

}  // namespace gpipe
