#pragma once

#include <cstdint>

#include <gpipe/plan/partition/problem.hpp>

namespace gpipe::detail {

/// The fill-drain step of stages that run forward again for different numbers of micro-batches.
///
/// A stage that keeps w working sets runs forward again for all micro-batches except the w whose gradients come first.
/// So its k-th backward takes c(k) = b for k <= w, and b + f for k > w. With free transfers a step takes
///
///     sum (f + b) + (M - 1) max f + the longest path,
///
/// where a path begins after the last stage's first backward and makes M - 1 steps, for k = 2 ... M. Each costs the
/// c(k) of one stage, and the stages never ascend:
///
///     k         2  3  4  5
///     stage 2   +--+             the longest path over the stages s and after for the first j steps:
///     stage 1      +--+          h(s, j) = max(h(s + 1, j), h(s, j - 1) + c(j + 1))
///     stage 0         +--+
class backward_path {
 public:
  constexpr explicit backward_path(int micro_batches) : steps_(micro_batches - 1) {}

  /// The elements of an array h(s, 0) ... h(s, M - 1).
  constexpr int size() const { return steps_ + 1; }

  /// Writes h of a stage, given h of the stage after; both may be one array.
  constexpr void extend(const std::int64_t* after, std::int64_t forward, std::int64_t backward, int working_sets,
                        std::int64_t* h) const {
    h[0] = 0;
    for (int j = 1; j <= steps_; ++j) {
      const std::int64_t path = h[j - 1] + backward + (j + 1 > working_sets ? forward : 0);
      h[j] = after[j] > path ? after[j] : path;
    }
  }
  /// The minimum of the whole path if a stage before has a backward of at least `backward`.
  constexpr std::int64_t shortest(const std::int64_t* h, std::int64_t backward) const {
    std::int64_t longest = 0;
    for (int j = 0; j <= steps_; ++j)
      if (const std::int64_t path = h[j] + (steps_ - j) * backward; path > longest) longest = path;
    return longest;
  }

 private:
  int steps_;
};

}  // namespace gpipe::detail
