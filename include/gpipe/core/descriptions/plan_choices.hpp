#pragma once

#include <initializer_list>
#include <string_view>

#include <gpipe/core/error.hpp>

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

// assumes: half precision is bf16
/// The element type of a model's activations and their gradients, and of the copies of weights that kernels read.
/// Parameters, their gradients and moments, sums and losses are float32 in both precisions.
enum class precision {
  float32,
  bf16,  ///< half the bytes on edges and links; uses a device's matrix units
};

/// The name of the precision in options and reports.
constexpr const char* name_of(precision chosen) { return chosen == precision::bf16 ? "bf16" : "float32"; }

/// Selects the arrays that the R replicas of a stage divide among them, one share per replica, instead of R full
/// copies. A layer is never split between shares. The bits of a training do not change.
enum class shard {
  none,             ///< every replica keeps full copies
  optimizer_state,  ///< a replica keeps moments, arrays of tensor rules and averages of its share only, and updates
                    ///< that (ZeRO-1)
  gradients,        ///< and, once summed, gradients of its share only, where the schedule allows it (ZeRO-2)
};

/// The name of the choice in options and reports.
constexpr const char* name_of(shard chosen) {
  constexpr const char* names[] = {"none", "optimizer-state", "gradients"};
  return names[static_cast<int>(chosen)];
}

/// Patterns that select layers: `{"h.*.mlp", "layer_norm"}`. The strings must have static lifetime. A pattern is the
/// path of a layer or of a group of layers, or the name of a layer type. A star matches any letters except a dot.
struct layer_patterns {
  static constexpr int max_count = 16;

  const char* texts[max_count]{};
  int count = 0;

  constexpr layer_patterns() = default;
  constexpr layer_patterns(std::initializer_list<const char*> list) {
    for (const char* pattern : list) add(pattern);
  }

  constexpr void add(const char* pattern) {
    if (count == max_count)
      detail::throw_error({"a list of layers has more than ", int{max_count}, " patterns"}, {"use stars: \"h.*.mlp\""});
    texts[count++] = pattern;
  }
  constexpr bool empty() const { return count == 0; }
  constexpr bool operator==(const layer_patterns& right) const {
    if (count != right.count) return false;
    for (int i = 0; i < count; ++i)
      if (std::string_view(texts[i]) != right.texts[i]) return false;
    return true;
  }
};

}  // namespace gpipe
