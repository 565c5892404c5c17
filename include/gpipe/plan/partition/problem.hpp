#pragma once

#include <cstdint>
#include <limits>
#include <type_traits>

namespace gpipe {

/// The cost of one layer of the model for one micro-batch, in any one unit of time.
struct pass_cost {
  std::int64_t forward = 0, backward = 0;
  std::int64_t recompute = 0;  ///< the part of `backward` that runs forward again; it need not wait for the gradient
};

namespace detail {

/// A value that one layer writes and later layers read. It goes directly from the writer's stage to each reader's
/// stage. The writer's stage pays once for sending it, each other stage that reads it once for receiving it.
struct transfer {
  int writer = 0;
  const int* readers = nullptr;  ///< layers after the writer, ascending; null: the next layer, as in a chain
  int reader_count = 1;
  std::int64_t time = 0;  ///< one way, for one micro-batch, in the unit of the costs
  bool gradient = true;   ///< it has a gradient, which needs the same time back

  constexpr int reader(int i) const { return readers == nullptr ? writer + 1 : readers[i]; }
  constexpr int last_reader() const { return reader(reader_count - 1); }
  /// The time that each end pays.
  constexpr std::int64_t charge() const { return gradient ? 2 * time : time; }
};

}  // namespace detail

/// The quantity that a partition minimizes.
enum class objective : std::uint8_t {
  fill_drain,  ///< time of a fill-drain step, see `objective_of`; transfers must be free
  bottleneck,  ///< the largest f + b + transfers of a stage
};

/// A model to cut, and the devices of its stages. The arrays belong to the caller.
struct partition_problem {
  int layers = 0, stages = 1, micro_batches = 1;
  const pass_cost* costs = nullptr;             ///< costs of every layer on each kind of device, [kind][layer]
  int kinds = 1;                                ///< kinds of devices
  const int* kind_of = nullptr;                 ///< the kind of each stage's device; null: kind 0
  const detail::transfer* transfers = nullptr;  ///< null: free
  int transfer_count = 0;
  objective goal = objective::fill_drain;
  /// For fill-drain: every micro-batch runs forward again, including the one whose gradient arrives first.
  bool recomputes_first = false;

  constexpr int kind(int stage) const { return kind_of == nullptr ? 0 : kind_of[stage]; }
  constexpr const pass_cost* costs_on(int stage) const { return costs + kind(stage) * layers; }
};

namespace detail {

/// The memory of any stage is unlimited.
struct fits_always {
  constexpr bool operator()(int, int) const { return true; }
};

inline constexpr std::int64_t unlimited = (std::numeric_limits<std::int64_t>::max)();

/// Whether the limits differ from stage to stage: `fits(stage, begin, end)` and not `fits(begin, end)`.
template <class Fits>
inline constexpr bool limits_stages = std::is_invocable_v<const Fits&, int, int, int>;

template <class Fits>
constexpr bool stage_fits(const Fits& fits, [[maybe_unused]] int stage, int begin, int end) {
  if constexpr (limits_stages<Fits>) return fits(stage, begin, end);
  else return fits(begin, end);
}

}  // namespace detail

}  // namespace gpipe
