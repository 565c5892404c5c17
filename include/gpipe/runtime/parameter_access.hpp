#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numbers>
#include <vector>

#include <gpipe/core/config.hpp>
#include <gpipe/core/hash.hpp>
#include <gpipe/core/numbers/math.hpp>
#include <gpipe/core/numbers/multiply_add.hpp>
#include <gpipe/core/numbers/random.hpp>
#include <gpipe/layer/contract/description.hpp>
#include <gpipe/plan/memory/array_location.hpp>
#include <gpipe/plan/memory/shares.hpp>
#include <gpipe/plan/step_plan.hpp>
#include <gpipe/runtime/processes/rank_layout.hpp>
#include <gpipe/runtime/replicas/replica.hpp>

namespace gpipe::detail {

// Makes a double above 0 and at most 1 of two words.
inline double open_uniform(std::uint32_t high, std::uint32_t low) {
  return (multiply_add(static_cast<double>(high), 4294967296.0, low) + 0.5) * 0x1p-64;
}

/// The deviation of a normal distribution, the limit of a uniform one, or the constant.
inline double value_bound(const initializer& initial) {
  return initial.scale / std::sqrt(static_cast<double>(initial.fan_in) * initial.divisor);
}

// change: an initializer
// change: an initializer
/// The first value of element `i` of a layer's array: `number` counts the layer's parameters and then the parts of its
/// state. It depends only on these, the layer's position and the seed, so no cut changes it. It is drawn in double,
/// then rounded. `initial` has its fan-in: see `initializer::of`. `bound` is `value_bound` of `initial`. The draw takes
/// the lower 32 bits of `i`.
inline double first_value(const initializer& initial, double bound, std::uint64_t seed, int layer, int number,
                          std::size_t i) {
  using enum initializer::kind;
  if (initial.drawn == zeros) return 0;
  if (initial.drawn == ones) return 1;
  if (initial.drawn == constant) return bound;
  const random_key key{seed, random_key::initializing, static_cast<std::uint32_t>(layer), 0};
  const auto words = draw(key, static_cast<std::uint32_t>(number), static_cast<std::uint32_t>(i));
  const double u = detail::open_uniform(words.word[0], words.word[1]);
  if (initial.drawn == uniform) return bound * multiply_add(2.0, u, -1);
  // The transform of Box and Muller.
  const double v = detail::open_uniform(words.word[2], words.word[3]);
  return bound * std::sqrt(-2 * math::log(u)) * math::cos(2 * std::numbers::pi * v);
}

inline double first_value(const initializer& initial, std::uint64_t seed, int layer, int number, std::size_t i) {
  return first_value(initial, value_bound(initial), seed, layer, number, i);
}

/// Calls `put(offset, bytes, values)` for the first values of an array of a layer, in pieces.
template <class Put>
GPIPE_COLD void first_values(dtype type, const parameter& array, std::uint64_t seed, int layer, int number, Put&& put) {
  constexpr std::size_t max_elements = 1 << 15;
  std::vector<std::byte> values(max_elements * bytes_of(type));
  const std::size_t n = array.extents.size();
  const initializer initial = array.first.of(array.extents);
  const double bound = value_bound(initial);
  for (std::size_t first = 0; first < n; first += max_elements) {
    const std::size_t some = (std::min)(max_elements, n - first);
    visit_dtype<double, float>(type, [&]<class T>() {
      for (std::size_t i = 0; i < some; ++i)
        reinterpret_cast<T*>(values.data())[i] =
            static_cast<T>(first_value(initial, bound, seed, layer, number, first + i));
    });
    put(first * bytes_of(type), some * bytes_of(type), values.data());
  }
}

/// Reads and writes arrays of layers, in whichever stage they are.
class parameter_access {
 public:
  parameter_access(const network& net, const step_plan& plan, const rank_layout& ranks, const replica_list& replicas);

  // assumes: replicas keep all parameters
  /// The replica that updates a layer, if replicas keep shares; else the first.
  int owner_of(int layer) const { return owners_[index(layer)]; }
  /// The replica that is certain to have the array: its owner, or the first replica for gradients that `wait` for a
  /// step. Without shares, and for state, all replicas have it: `fallback`.
  int holder_of(const array_location& array, int fallback, bool wait = false) const;

  /// The address, in the memory of a stage of this process.
  std::byte* address(const array_location& array, int replica) const;

  /// Whether this process has a layer's memory, in this replica or in any.
  bool is_here(int layer, int replica) const { return ranks_.has_stage(replica, stage_of(layer)); }
  bool is_here(int layer) const { return replica_with(layer) >= 0; }
  /// The first replica whose memory of a layer this process has; -1: none.
  int replica_with(int layer) const;
  /// Copies an array from the replica that is certain to have it, if that is in this process. Otherwise a parameter has
  /// the value that was last gathered, and an array that only its owner keeps is not copied.
  void read_own(const array_location& array, void* target) const;
  /// Copies an array of this process.
  void read_here(const array_location& array, void* target, int replica) const;
  /// Copies an array to all processes.
  void read(const array_location& array, void* target, int replica, const broadcast& processes) const;
  /// Sets an array in every replica of this process that has it.
  void write(const array_location& array, const void* values) const;
  /// Recomputes all buffers that are derived from parameters.
  void refresh() const;

  /// Sets the first values of all parameters and state of this process.
  void initialize(std::uint64_t seed) const;

 private:
  bool in_shares() const { return plan_.trains && plan_.options.shares() > 1; }
  /// Moments, arrays and averages have memory in their owner alone.
  bool has(int replica, const array_location& array) const;
  int stage_of(int layer) const { return plan_.cut().stage_of(layer); }
  const bound_stage& stage_with(int layer, int replica) const { return replicas_.at(replica).stage(stage_of(layer)); }

  const network& net_;
  const step_plan& plan_;
  const rank_layout& ranks_;
  const replica_list& replicas_;
  std::vector<int> owners_;  // [layer]
};

}  // namespace gpipe::detail

#if !GPIPE_COMPILED
#include <gpipe/runtime/parameter_access-inl.hpp>
#endif
