#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <gpipe/core/hash.hpp>
#include <gpipe/core/index.hpp>
#include <gpipe/plan/memory/array_location.hpp>
#include <gpipe/plan/memory/memory_kind.hpp>
#include <gpipe/plan/memory/shares.hpp>
#include <gpipe/plan/stages/stage_view.hpp>
#include <gpipe/plan/step_plan.hpp>
#include <gpipe/runtime/binding/initial_values.hpp>
#include <gpipe/runtime/processes/broadcast.hpp>
#include <gpipe/runtime/replicas/replica_list.hpp>

namespace gpipe::detail {

/// Reads and writes arrays of layers, in whichever stage they are.
template <class Device>
class parameter_access {
 public:
  parameter_access(const network& net, const step_plan& plan, const rank_layout& here,
                   const replica_list<Device>& replicas)
      : net_(net), plan_(plan), here_(here), replicas_(replicas), owners_(index(net.layer_count)) {
    for (int s = 0; s < plan.stages(); ++s)
      each_share(stage_view(net, plan.cut(), s), plan.requirements(s).shares, nullptr,
                 [&](int replica, const stage_share& its) {
                   for (int l = its.first; l < its.last; ++l) owners_[index(l)] = replica;
                 });
  }

  /// The replica that updates a layer, if replicas keep shares; else the first.
  int owner_of(int layer) const { return owners_[index(layer)]; }
  /// The replica that surely has the array: its owner. It is the first for gradients that `wait` for a step, any for
  /// state.
  int holder_of(const array_location& of, int any, bool wait = false) const {
    if (!in_shares() || of.kind == memory_kind::state) return any;
    return of.kind == memory_kind::gradients && wait ? 0 : owner_of(of.layer_index);
  }

  /// The address, in the memory of a stage that is here.
  std::byte* address(const array_location& of, int replica) const {
    return stage_with(of.layer_index, replica).map().find(of.kind, of.layer_index, -1, {}, of.index).base + of.offset;
  }

  /// Whether this process has a layer's memory, in this replica or in any.
  bool is_here(int layer, int replica) const { return here_.has_stage(replica, stage_of(layer)); }
  bool is_here(int layer) const { return replica_with(layer) >= 0; }
  /// The first replica whose memory of a layer this process has; -1: none.
  int replica_with(int layer) const {
    for (int r = 0; r < plan_.replicas(); ++r)
      if (is_here(layer, r)) return r;
    return -1;
  }
  /// Copies an array from the replica that surely has it, if that is here. Else a parameter is as it was when it was
  /// gathered, and what only its owner keeps is not copied.
  GPIPE_COLD void read_own(const array_location& from, void* into) const {
    const int any = replica_with(from.layer_index), holder = holder_of(from, any);
    if (is_here(from.layer_index, holder)) read_here(from, into, holder);
    else if (any >= 0 && has(any, from)) read_here(from, into, any);
  }
  /// Copies an array that is here.
  GPIPE_COLD void read_here(const array_location& from, void* into, int replica) const {
    const auto& context = stage_with(from.layer_index, replica).context();
    context.download(static_cast<std::ptrdiff_t>(from.bytes), address(from, replica), static_cast<std::byte*>(into));
    context.finish();
  }
  /// The same in all processes.
  GPIPE_COLD void read(const array_location& from, void* into, int replica, const broadcast& all) const {
    if (is_here(from.layer_index, replica)) read_here(from, into, replica);
    const std::int64_t which[] = {static_cast<int>(from.kind), from.layer_index, from.index,
                                  static_cast<std::int64_t>(from.offset)};
    hash call;
    call.add(reinterpret_cast<const std::byte*>(which), sizeof which);
    all.from_stage(replica, stage_of(from.layer_index), into, from.bytes, call.value());
  }
  /// Sets an array in every replica that is here and has it.
  GPIPE_COLD void write(const array_location& into, const void* from) const {
    for (int r = 0; r < plan_.replicas(); ++r) {
      if (!is_here(into.layer_index, r) || !has(r, into)) continue;
      const auto& context = stage_with(into.layer_index, r).context();
      context.upload(static_cast<std::ptrdiff_t>(into.bytes), static_cast<const std::byte*>(from), address(into, r));
      context.finish();
    }
  }
  /// Recomputes all buffers that are derived from parameters.
  GPIPE_COLD void refresh() const {
    replicas_.each_stage([](auto& stage) { stage.refresh(); });
    replicas_.each_stage([](auto& stage) { stage.context().finish(); });
  }

  /// Sets the first values of all parameters and state that are here.
  GPIPE_COLD void initialize(std::uint64_t seed) const {
    for_each_array(net_, [&](const named_array& which) {
      if (net_.owner(which) != which || !is_here(which.layer_index)) return;
      const layer_type& r = net_.type_of(which.layer_index);
      const int number = which.kind == array_kind::parameter ? which.index : r.parameter_count + which.index;
      const array_location all = locate(net_, which);
      first_values(
          r.type, description_of(net_, which), seed, which.layer_index, number,
          [&](std::size_t at, std::size_t bytes, const std::byte* values) { write(all.part(at, bytes), values); });
    });
    refresh();
  }

 private:
  bool in_shares() const { return plan_.trains && plan_.options.shares() > 1; }
  /// Moments, arrays and averages have memory in their owner alone.
  bool has(int replica, const array_location& of) const {
    const bool owned =
        of.kind == memory_kind::moments || of.kind == memory_kind::arrays || of.kind == memory_kind::averages;
    return !in_shares() || !owned || replica == owner_of(of.layer_index);
  }
  int stage_of(int layer) const { return plan_.cut().stage_of(layer); }
  const bound_stage<Device>& stage_with(int layer, int replica) const {
    return replicas_.at(replica).stage(stage_of(layer));
  }

  const network& net_;
  const step_plan& plan_;
  const rank_layout& here_;
  const replica_list<Device>& replicas_;
  std::vector<int> owners_;  // [layer]
};

}  // namespace gpipe::detail
