#pragma once

#include <gpipe/core/config.hpp>
#include <gpipe/plan/memory/memory_kind.hpp>
#include <gpipe/plan/stages/stage_view.hpp>
#include <gpipe/runtime/parameter_access.hpp>

namespace gpipe::detail {

GPIPE_INLINE parameter_access::parameter_access(const network& net, const step_plan& plan, const rank_layout& ranks,
                                                const replica_list& replicas)
    : net_(net), plan_(plan), ranks_(ranks), replicas_(replicas), owners_(index(net.layer_count)) {
  for (int s = 0; s < plan.stages(); ++s)
    each_share(stage_view(net, plan.cut(), s), plan.requirements(s).shares, nullptr,
               [&](int replica, const stage_share& share) {
                 for (int l = share.first; l < share.last; ++l) owners_[index(l)] = replica;
               });
}

GPIPE_INLINE int parameter_access::holder_of(const array_location& array, int fallback, bool wait) const {
  if (!in_shares() || array.kind == memory_kind::state) return fallback;
  return array.kind == memory_kind::gradients && wait ? 0 : owner_of(array.layer_index);
}

GPIPE_INLINE std::byte* parameter_access::address(const array_location& array, int replica) const {
  return stage_with(array.layer_index, replica).map().find(array.kind, array.layer_index, -1, {}, array.index).base +
         array.offset;
}

GPIPE_INLINE int parameter_access::replica_with(int layer) const {
  for (int r = 0; r < plan_.replicas(); ++r)
    if (is_here(layer, r)) return r;
  return -1;
}

GPIPE_INLINE GPIPE_COLD void parameter_access::read_own(const array_location& array, void* target) const {
  const int local = replica_with(array.layer_index), holder = holder_of(array, local);
  if (is_here(array.layer_index, holder)) read_here(array, target, holder);
  else if (local >= 0 && has(local, array)) read_here(array, target, local);
}

GPIPE_INLINE GPIPE_COLD void parameter_access::read_here(const array_location& array, void* target, int replica) const {
  const auto& context = stage_with(array.layer_index, replica).context();
  context.download(static_cast<std::ptrdiff_t>(array.bytes), address(array, replica), static_cast<std::byte*>(target));
  context.finish();
}

GPIPE_INLINE GPIPE_COLD void parameter_access::read(const array_location& array, void* target, int replica,
                                                    const broadcast& processes) const {
  if (is_here(array.layer_index, replica)) read_here(array, target, replica);
  const std::int64_t arguments[] = {static_cast<int>(array.kind), array.layer_index, array.index,
                                    static_cast<std::int64_t>(array.offset)};
  hash call;
  call.add(reinterpret_cast<const std::byte*>(arguments), sizeof arguments);
  processes.from_stage(replica, stage_of(array.layer_index), target, array.bytes, call.value());
}

GPIPE_INLINE GPIPE_COLD void parameter_access::write(const array_location& array, const void* values) const {
  for (int r = 0; r < plan_.replicas(); ++r) {
    if (!is_here(array.layer_index, r) || !has(r, array)) continue;
    const auto& context = stage_with(array.layer_index, r).context();
    context.upload(static_cast<std::ptrdiff_t>(array.bytes), static_cast<const std::byte*>(values), address(array, r));
    context.finish();
  }
}

GPIPE_INLINE GPIPE_COLD void parameter_access::refresh() const {
  replicas_.each_stage([](auto& stage) { stage.refresh(); });
  replicas_.each_stage([](auto& stage) { stage.context().finish(); });
}

GPIPE_INLINE GPIPE_COLD void parameter_access::initialize(std::uint64_t seed) const {
  for_each_array(net_, [&](const named_array& array) {
    if (net_.owner(array) != array || !is_here(array.layer_index)) return;
    const layer_type& layer = net_.type_of(array.layer_index);
    const int number = array.kind == array_kind::parameter ? array.index : layer.parameter_count + array.index;
    const array_location target = locate(net_, array);
    first_values(layer.type, description_of(net_, array), seed, array.layer_index, number,
                 [&](std::size_t offset, std::size_t bytes, const std::byte* values) {
                   write(target.part(offset, bytes), values);
                 });
  });
  refresh();
}

GPIPE_INLINE bool parameter_access::has(int replica, const array_location& array) const {
  const bool owned =
      array.kind == memory_kind::moments || array.kind == memory_kind::arrays || array.kind == memory_kind::averages;
  return !in_shares() || !owned || replica == owner_of(array.layer_index);
}

}  // namespace gpipe::detail
