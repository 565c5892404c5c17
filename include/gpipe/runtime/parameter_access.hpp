#pragma once

#include <cstddef>
#include <cstdint>

#include <gpipe/core/hash.hpp>
#include <gpipe/plan/memory/memory_kind.hpp>
#include <gpipe/plan/step_plan.hpp>
#include <gpipe/runtime/binding/initial_values.hpp>
#include <gpipe/runtime/processes/broadcast.hpp>
#include <gpipe/runtime/replicas/replica_list.hpp>

namespace gpipe::detail {

/// An array that a training changes and an evaluation reads: of a slot, with the bytes before it in the slot's own
/// block.
struct value_place {
  memory_kind kind;
  int slot;
  std::size_t at, bytes;
};

/// Calls with every parameter, a tied one once, and with every layer's state, in model order.
template <class Call>
void each_value(const network& net, Call&& call) {
  for (int l = 0; l < net.slot_count; ++l) {
    const row& r = net.row_of(l);
    const auto each_of = [&](memory_kind kind, const parameter* list, int count) {
      std::size_t at = 0;
      for (int p = 0; p < count; ++p) {
        if (kind == memory_kind::parameters && !net.owns(l, p)) continue;
        const std::size_t bytes = list[p].extents.size() * bytes_of(r.type);
        call(value_place{kind, l, at, bytes});
        at += aligned(bytes);
      }
    };
    each_of(memory_kind::parameters, r.parameters, r.parameter_count);
    each_of(memory_kind::state, r.state, r.state_count);
  }
}
GPIPE_COLD inline std::size_t value_bytes(const network& net) {
  std::size_t sum = 0;
  each_value(net, [&](const value_place& v) { sum += v.bytes; });
  return sum;
}

/// Reads and writes parameters, gradients, moments and state of slots, in whichever stage they are. A slot has only its
/// own: a tied parameter is found at its owner.
template <class Device>
class parameter_access {
 public:
  parameter_access(const network& net, const step_plan& plan, const rank_layout& here,
                   const replica_list<Device>& replicas)
      : net_(net), plan_(plan), here_(here), replicas_(replicas) {}

  /// The address, in the memory of a stage that is here.
  std::byte* find(memory_kind kind, int slot, int index, int replica) const {
    return stage_with(slot, replica).map().find(kind, slot, -1, {}, index).base;
  }

  /// Whether this process has the memory.
  bool is_here(int slot, int replica) const { return here_.has_stage(replica, stage_of(slot)); }
  /// Copies `bytes` from offset `at` on to `into`, out of memory that is here.
  GPIPE_COLD void read_here(memory_kind kind, int slot, int index, std::size_t at, std::size_t bytes, void* into,
                            int replica) const {
    const auto& context = stage_with(slot, replica).context();
    context.download(static_cast<std::ptrdiff_t>(bytes), find(kind, slot, index, replica) + at,
                     static_cast<std::byte*>(into));
    context.finish();
  }
  /// The same in all processes.
  GPIPE_COLD void read(memory_kind kind, int slot, int index, std::size_t at, std::size_t bytes, void* into,
                       int replica, const broadcast& all) const {
    if (is_here(slot, replica)) read_here(kind, slot, index, at, bytes, into, replica);
    const std::int64_t which[] = {static_cast<int>(kind), slot, index, static_cast<std::int64_t>(at)};
    hash call;
    call.add(reinterpret_cast<const std::byte*>(which), sizeof which);
    all.from_stage(replica, stage_of(slot), into, bytes, call.value());
  }
  /// Copies `bytes` from `from` to offset `at`, in every replica that is here.
  GPIPE_COLD void write(memory_kind kind, int slot, int index, std::size_t at, std::size_t bytes,
                        const void* from) const {
    for (int r = 0; r < plan_.replicas(); ++r) {
      if (!is_here(slot, r)) continue;
      const auto& context = stage_with(slot, r).context();
      context.upload(static_cast<std::ptrdiff_t>(bytes), static_cast<const std::byte*>(from),
                     find(kind, slot, index, r) + at);
      context.finish();
    }
  }
  /// Recomputes all buffers that are derived from parameters.
  GPIPE_COLD void refresh() const {
    replicas_.each_stage([](auto& stage) { stage.refresh(); });
    replicas_.each_stage([](auto& stage) { stage.context().finish(); });
  }

  /// Sets the first values of all parameters and state that are here.
  GPIPE_COLD void initialise(std::uint64_t seed) const {
    for (int l = 0; l < net_.slot_count; ++l) {
      bool here = false;
      replicas_.each_copy_of(stage_of(l), [&](auto&) { here = true; });
      if (!here) continue;
      const row& r = net_.row_of(l);
      const auto put = [&](memory_kind kind, std::size_t before) {
        return [this, kind, l, before](std::size_t at, std::size_t bytes, const std::byte* values) {
          write(kind, l, 0, before + at, bytes, values);
        };
      };
      for (int p = 0; p < r.parameter_count; ++p)
        if (net_.owns(l, p))
          first_values(r.type, r.parameters + p, 1, seed, l, p, put(memory_kind::parameters, net_.own_bytes(l, p)));
      if (r.state_count > 0)
        first_values(r.type, r.state, r.state_count, seed, l, r.parameter_count, put(memory_kind::state, 0));
    }
    refresh();
  }

 private:
  int stage_of(int slot) const { return plan_.cut().stage_of(slot); }
  const bound_stage<Device>& stage_with(int slot, int replica) const {
    return replicas_.at(replica).stage(stage_of(slot));
  }

  const network& net_;
  const step_plan& plan_;
  const rank_layout& here_;
  const replica_list<Device>& replicas_;
};

}  // namespace gpipe::detail
