#pragma once

#include <gpipe/core/build_mode.hpp>
#include <gpipe/runtime/parameter_access.hpp>

namespace gpipe::detail {

GPIPE_INLINE parameter_access::parameter_access(const network& net, const step_plan& plan, const rank_layout& here,
                                                const replica_list& replicas)
    : net_(net), plan_(plan), here_(here), replicas_(replicas), owners_(index(net.layer_count)) {
  for (int s = 0; s < plan.stages(); ++s)
    each_share(stage_view(net, plan.cut(), s), plan.requirements(s).shares, nullptr,
               [&](int replica, const stage_share& its) {
                 for (int l = its.first; l < its.last; ++l) owners_[index(l)] = replica;
               });
}

GPIPE_INLINE int parameter_access::holder_of(const array_location& of, int any, bool wait) const {
  if (!in_shares() || of.kind == memory_kind::state) return any;
  return of.kind == memory_kind::gradients && wait ? 0 : owner_of(of.layer_index);
}

GPIPE_INLINE std::byte* parameter_access::address(const array_location& of, int replica) const {
  return stage_with(of.layer_index, replica).map().find(of.kind, of.layer_index, -1, {}, of.index).base + of.offset;
}

GPIPE_INLINE int parameter_access::replica_with(int layer) const {
  for (int r = 0; r < plan_.replicas(); ++r)
    if (is_here(layer, r)) return r;
  return -1;
}

GPIPE_INLINE GPIPE_COLD void parameter_access::read_own(const array_location& from, void* into) const {
  const int any = replica_with(from.layer_index), holder = holder_of(from, any);
  if (is_here(from.layer_index, holder)) read_here(from, into, holder);
  else if (any >= 0 && has(any, from)) read_here(from, into, any);
}

GPIPE_INLINE GPIPE_COLD void parameter_access::read_here(const array_location& from, void* into, int replica) const {
  const auto& context = stage_with(from.layer_index, replica).context();
  context.download(static_cast<std::ptrdiff_t>(from.bytes), address(from, replica), static_cast<std::byte*>(into));
  context.finish();
}

GPIPE_INLINE GPIPE_COLD void parameter_access::read(const array_location& from, void* into, int replica,
                                                    const broadcast& all) const {
  if (is_here(from.layer_index, replica)) read_here(from, into, replica);
  const std::int64_t which[] = {static_cast<int>(from.kind), from.layer_index, from.index,
                                static_cast<std::int64_t>(from.offset)};
  hash call;
  call.add(reinterpret_cast<const std::byte*>(which), sizeof which);
  all.from_stage(replica, stage_of(from.layer_index), into, from.bytes, call.value());
}

GPIPE_INLINE GPIPE_COLD void parameter_access::write(const array_location& into, const void* from) const {
  for (int r = 0; r < plan_.replicas(); ++r) {
    if (!is_here(into.layer_index, r) || !has(r, into)) continue;
    const auto& context = stage_with(into.layer_index, r).context();
    context.upload(static_cast<std::ptrdiff_t>(into.bytes), static_cast<const std::byte*>(from), address(into, r));
    context.finish();
  }
}

GPIPE_INLINE GPIPE_COLD void parameter_access::refresh() const {
  replicas_.each_stage([](auto& stage) { stage.refresh(); });
  replicas_.each_stage([](auto& stage) { stage.context().finish(); });
}

GPIPE_INLINE GPIPE_COLD void parameter_access::initialize(std::uint64_t seed) const {
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

GPIPE_INLINE bool parameter_access::has(int replica, const array_location& of) const {
  const bool owned =
      of.kind == memory_kind::moments || of.kind == memory_kind::arrays || of.kind == memory_kind::averages;
  return !in_shares() || !owned || replica == owner_of(of.layer_index);
}

}  // namespace gpipe::detail
