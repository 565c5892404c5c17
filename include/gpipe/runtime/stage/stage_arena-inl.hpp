#pragma once

#include <gpipe/core/config.hpp>
#include <gpipe/runtime/stage/stage_arena.hpp>

namespace gpipe::detail {

GPIPE_INLINE GPIPE_COLD stage_arena::stage_arena(const device_functions& device, const network& net,
                                                 const step_plan& plan, int stage, std::byte fill, int replica,
                                                 const stage_arena* longest)
    : net_(&net),
      plan_(&plan),
      stage_(stage),
      replica_(replica),
      memory_(plan.memory(stage)),
      share_(own_share(stage_view(net, plan.cut(), stage), plan.requirements(stage).shares, replica)),
      place_(longest != nullptr ? longest->place_
                                : std::make_shared<place>(device, replica * plan.stages() + stage,
                                                          static_cast<std::size_t>(memory_.total()), fill)),
      context_(place_->context),
      handle_(context_.handle()),
      takes_operations_(context_.takes_operations()),
      arena_(place_->arena),
      map_(arena_.data()) {
  if (plan.options.tf32 && !context_.allow_tf32())
    detail::throw_error({"tf32 is true, and the plan's device computes no products in TF32"},
                        {"train on cuda_device, or leave tf32 out"});
  for (const memory_block& b : plan.blocks[detail::index(stage)]) map_.add(b);
  if (longest != nullptr) return;
  // Gaps between parameters stay zero, because whole arrays are updated at once.
  context_.fill(memory_.before(static_cast<int>(memory_kind::tied) + 1), std::byte{0}, arena_.data());
}

GPIPE_INLINE GPIPE_COLD void stage_arena::settle() const noexcept {
  try {
    context_.finish();
  } catch (...) {
  }
}

GPIPE_INLINE layer_range stage_arena::reported(bool commits) const {
  return reported_layers(stage_view(*net_, plan_->cut(), stage_), shares(), replica_, commits);
}

GPIPE_INLINE GPIPE_COLD void stage_arena::begin_updates(const parameter_groups& groups) {
  groups_ = &groups;
  for (auto& b : binding_.layers) find_frozen(b);
  find_ranges();
}

GPIPE_INLINE GPIPE_COLD void stage_arena::begin_moments(const optimizer_update& rule) {
  context_.fill(memory_.of(memory_kind::arrays), std::byte{0}, begin_of(memory_kind::arrays));
  for (int i = 0; i < plan_->options.optimizer_moments && memory_.of(memory_kind::moments) > 0; ++i)
    visit_dtype<double, float>(net_->type, [&]<class T>() {
      context_.fill(elements(), static_cast<T>(rule.first_moment(i)), reinterpret_cast<T*>(moments(i)));
    });
}

GPIPE_INLINE GPIPE_OUT_OF_LINE void stage_arena::move_averages(double share) {
  context_.move_averages(net_->type, elements(), updated_parameters(), averages(), share);
}

GPIPE_INLINE GPIPE_COLD void stage_arena::copy_to_averages() {
  context_.copy(share_.bytes, static_cast<const std::byte*>(updated_parameters()), averages());
}

GPIPE_INLINE GPIPE_OUT_OF_LINE void stage_arena::sum_squares(bool commits) {
  const layer_range layers = reported(commits);
  for (int l = layers.first; l < layers.last; ++l) {
    const auto& b = at(l);
    if (b.frozen || (commits && b.owned.bytes == 0)) context_.fill(1, 0.0, b.sum_of_squares);
    else sum_squares(b, commits);
  }
}

GPIPE_INLINE void stage_arena::download_squares(bool commits, double* squares) const {
  const layer_range layers = reported(commits);
  if (layers.empty()) return;
  context_.download(static_cast<std::ptrdiff_t>(detail::index(layers.last - layers.first) * sizeof(double)),
                    reinterpret_cast<const std::byte*>(at(layers.first).sum_of_squares),
                    reinterpret_cast<std::byte*>(squares + layers.first));
}

GPIPE_INLINE stage_share stage_arena::own_share(const stage_view& stage, int shares, int replica) {
  return share_of_replica(stage, shares, shares > 1 ? replica : 0);
}

GPIPE_INLINE GPIPE_COLD void stage_arena::find_frozen(bound& b) {
  b.frozen = !b.frozen_parameters.empty();
  b.has_frozen = false;
  for (std::size_t p = 0; p < b.frozen_parameters.size(); ++p) {
    const bool in_group = groups_ != nullptr && groups_->frozen(b.layer_index, static_cast<int>(p));
    b.frozen_parameters[p] = b.frozen_by_call[p] || in_group;
    b.frozen = b.frozen && b.frozen_parameters[p];
    b.has_frozen = b.has_frozen || b.frozen_parameters[p];
  }
}

GPIPE_INLINE GPIPE_COLD void stage_arena::find_ranges() {
  ranges_.clear();
  if (groups_ == nullptr || memory_.of(memory_kind::gradients) == 0) return;
  const tensor_rule_memory* const rule = plan_->options.tensor_rule;
  for (const auto& b : binding_.layers)
    for (int p = 0; share_.has(b.layer_index) && p < b.layer->parameter_count; ++p) {
      if (!net_->owns(b.layer_index, p) || b.frozen_parameters[index(p)]) continue;
      update_range next{net_->own_bytes(b.layer_index, p + 1) - net_->own_bytes(b.layer_index, p),
                        b.parameter_at[index(p)],
                        b.gradient_at[index(p)],
                        {},
                        groups_->of(b.layer_index, p)};
      for (int i = 0; i < plan_->options.optimizer_moments; ++i)
        next.moments[i] = moments(i) + (next.parameters - updated_parameters());
      if (rule != nullptr) {
        next.extents = &b.layer->parameters[p].extents;
        next.arrays =
            map_.find(memory_kind::arrays, b.layer_index, -1).base + arrays_before(*net_, b.layer_index, *rule, p);
      } else if (!ranges_.empty() && ranges_.back().group == next.group &&
                 ranges_.back().parameters + ranges_.back().bytes == next.parameters) {
        ranges_.back().bytes += next.bytes;
        continue;
      }
      ranges_.push_back(next);
    }
}

// change: gradient clipping; the norm of a layer
GPIPE_INLINE void stage_arena::sum_squares(const bound& b, bool commits) {
  const std::size_t size = bytes_of(b.layer->type);
  context_.sum_squares(b.layer->type, static_cast<std::ptrdiff_t>(b.owned.bytes / size), b.owned.gradients,
                       static_cast<std::ptrdiff_t>(commits ? 0 : b.tied.bytes / size), b.tied.gradients,
                       b.sum_of_squares);
}

}  // namespace gpipe::detail
