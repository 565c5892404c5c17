#pragma once

#include <gpipe/core/error.hpp>
#include <gpipe/core/text/quantity.hpp>

#include <cstdint>
#include <limits>
#include <type_traits>

namespace gpipe {

/// What one slot of the model costs on one micro-batch, in any one unit of time. `backward` includes a
/// recomputed forward if there is one.
struct slot_cost {
  std::int64_t forward = 0, backward = 0;
};

/// A value that one slot writes and later slots read. It goes straight from the writer's stage to the stages that read
/// it: the first pays for sending it, once, and each of the others for receiving it, once; stages between pay nothing.
struct transfer {
  int writer = 0;
  const int* readers = nullptr;  ///< slots behind the writer, ascending; none: the next slot, as in a chain
  int reader_count = 1;
  std::int64_t time = 0;  ///< one way, of one micro-batch, in the unit of the costs
  bool gradient = true;   ///< it has a gradient, which takes the same time back

  constexpr int reader(int i) const { return readers == nullptr ? writer + 1 : readers[i]; }
  constexpr int last_reader() const { return reader(reader_count - 1); }
  /// What each end pays.
  constexpr std::int64_t charge() const { return gradient ? 2 * time : time; }
};

/// What a partition makes smallest.
enum class objective : std::uint8_t {
  fill_drain,  ///< time of a fill-drain step, sum f + sum b + (M - 1) (max f + max b); transfers must be free
  bottleneck,  ///< the largest f + b + transfers of a stage
};

/// A model to cut, and the devices to cut it for. The arrays belong to the caller.
struct partition_problem {
  int slots = 0, stages = 1, micro_batches = 1;
  const slot_cost* costs = nullptr;     ///< of every slot on each kind of device, [kind][slot]
  int kinds = 1;                        ///< of devices
  const int* kind_of = nullptr;         ///< the kind of each stage's device; none: kind 0
  const transfer* transfers = nullptr;  ///< none: free
  int transfer_count = 0;
  objective goal = objective::fill_drain;

  constexpr int kind(int stage) const { return kind_of == nullptr ? 0 : kind_of[stage]; }
  constexpr const slot_cost* costs_on(int stage) const { return costs + kind(stage) * slots; }
};

/// The memory of any stage is unlimited.
struct fits_always {
  constexpr bool operator()(int, int) const { return true; }
};

namespace detail {

inline constexpr std::int64_t unlimited = (std::numeric_limits<std::int64_t>::max)();

/// Whether the limits differ from stage to stage: `fits(stage, begin, end)` and not `fits(begin, end)`.
template <class Fits>
inline constexpr bool limits_stages = std::is_invocable_v<const Fits&, int, int, int>;

template <class Fits>
constexpr bool stage_fits(const Fits& fits, [[maybe_unused]] int stage, int begin, int end) {
  if constexpr (limits_stages<Fits>) return fits(stage, begin, end);
  else return fits(begin, end);
}

// Not constexpr: reached in constant evaluation, they end it, and the compiler shows the call with its numbers.
[[noreturn]] inline void bad_stages(int stages, int slots) {
  refuse({"cannot cut ", several(slots, "slot"), " into ", several(stages, "stage")},
         {"choose from 1 to ", several(slots, "stage"), ": none may be empty"});
}
[[noreturn]] inline void bad_micro_batches(int micro_batches) {
  refuse({"cannot run ", micro_batches, " micro-batches"}, {"choose 1 or more"});
}
[[noreturn]] inline void bad_cost(int slot, const slot_cost& cost) {
  refuse({"a cost is negative (forward ", cost.forward, ", backward ", cost.backward, ")"},
         {"costs are times: give 0 or more"}, place{.slot = slot});
}
[[noreturn]] inline void cost_overflow(int slots, int micro_batches) {
  refuse({"the costs of ", several(slots, "slot"), " over ", several(micro_batches, "micro-batch"), " exceed 64 bits"},
         {"measure them in a larger unit of time"});
}
[[noreturn]] inline void bad_kind(int stage, int kind, int kinds) {
  refuse({"the stage is on a device of kind ", kind, ", but there are ", kinds, " kinds"},
         {"name kinds from 0 on, and give the costs on each"}, place{.stage = stage});
}
[[noreturn]] inline void bad_transfer(int index, int writer, int reader, std::int64_t time, int slots) {
  refuse({"transfer ", index, " goes from slot ", writer, " to slot ", reader, " of ", slots, " in time ", time},
         {"a value is read behind its writer, its readers ascend, and its time is 0 or more"});
}
[[noreturn]] inline void transfers_in_fill_drain(int transfers) {
  refuse({"the makespan of fill-drain is known for free transfers, but there are ", transfers},
         {"choose objective::bottleneck, or leave the transfers out"});
}
// A slot that fits nowhere (-1: there is none) is the reason worth naming.
[[noreturn]] inline void refuse_misfit(int homeless, int slots, int stages) {
  if (homeless >= 0)
    refuse({"the slots [", homeless, ", ", homeless + 1, ") alone fit the memory of no stage"},
           {"use smaller micro-batches or devices with more memory"}, place{.slot = homeless});
  refuse({"no cut of ", several(slots, "slot"), " into ", several(stages, "stage"), " fits the memory of a stage"},
         {"use more stages, smaller micro-batches, or recompute"});
}

constexpr std::int64_t added(std::int64_t a, std::int64_t b, int slots, int micro_batches) {
  if (a >= unlimited - b) cost_overflow(slots, micro_batches);
  return a + b;
}

constexpr void require_counts(int slots, int stages, int micro_batches) {
  if (stages < 1 || stages > slots) bad_stages(stages, slots);
  if (micro_batches < 1) bad_micro_batches(micro_batches);
}

/// All but the costs of slots, which are checked where they are summed.
constexpr void require_problem(const partition_problem& p) {
  require_counts(p.slots, p.stages, p.micro_batches);
  for (int s = 0; p.kind_of != nullptr && s < p.stages; ++s)
    if (p.kind_of[s] < 0 || p.kind_of[s] >= p.kinds) bad_kind(s, p.kind_of[s], p.kinds);
  if (p.goal == objective::fill_drain && p.transfer_count > 0) transfers_in_fill_drain(p.transfer_count);
  for (int i = 0; i < p.transfer_count; ++i) {
    const transfer& t = p.transfers[i];
    if (t.reader_count < 1 || t.time < 0) bad_transfer(i, t.writer, t.writer, t.time, p.slots);
    for (int r = 0, before = t.writer + 1; r < t.reader_count; before = t.reader(r++))
      if (t.writer < 0 || t.reader(r) < before || t.reader(r) >= p.slots)
        bad_transfer(i, t.writer, t.reader(r), t.time, p.slots);
    if (t.time > unlimited / 2) cost_overflow(p.slots, p.micro_batches);
  }
}

/// The first slot that fits the memory of no stage; -1: each fits one.
template <class Fits>
constexpr int homeless_slot(const Fits& fits, int slots, int stages) {
  for (int l = 0; l < slots; ++l) {
    bool somewhere = false;
    for (int s = 0; s < (limits_stages<Fits> ? stages : 1) && !somewhere; ++s)
      somewhere = stage_fits(fits, s, l, l + 1);
    if (!somewhere) return l;
  }
  return -1;
}

}  // namespace detail
}  // namespace gpipe
