#pragma once

#include <gpipe/core/config.hpp>
#include <gpipe/runtime/stage/bound_stage.hpp>

namespace gpipe::detail {

GPIPE_INLINE GPIPE_COLD bound_stage::bound_stage(const device_functions& device, const network& net,
                                                 const step_plan& plan, int stage, std::byte fill, int replica,
                                                 const bound_stage* longest)
    : stage_arena(device, net, plan, stage, fill, replica, longest),
      statistics_(plan, *this, longest != nullptr ? &longest->statistics_ : nullptr),
      hooks_(context_, net, plan, stage),
      done_(device) {}

GPIPE_INLINE GPIPE_COLD void bound_stage::bind(const std::vector<const detail::arena_map*>& maps,
                                               const kernel_row* kernels, bool canary) {
  binding_ = detail::binder(*net_, *plan_, maps, stage_, replica_).bind(kernels);
  if (canary) hooks_.use_canary(binding_.layers);
  statistics_.reserve();
  packed_for_.assign(binding_.layers.size(), reader::none);
  for (const auto& b : binding_.layers) {
    if (b.kernels->context != context_.device().context)
      throw_error({"the kernels of the layer ", b.layer->name, " are those of another device"},
                  {"give the kernels_of the context of the device"});
    if (b.kernels->prepare != nullptr) b.kernels->prepare(handle_, plan_->options.micro_batch_size, b.layer->lists);
  }
}

GPIPE_INLINE GPIPE_COLD void bound_stage::freeze(int layer, int parameter, bool frozen) {
  auto& b = bound_at(layer);
  b.frozen_by_call[index(parameter)] = frozen;
  base::find_frozen(b);
  base::find_ranges();
}

GPIPE_INLINE GPIPE_COLD void bound_stage::watch(int layer, detail::watched_rows* rows) {
  bound_at(layer).watched = rows;
  hooks_.update_watched(binding_.layers);
}

GPIPE_INLINE GPIPE_OUT_OF_LINE void bound_stage::forward(const step_context& step, int m) {
  feed(context_, step, m);
  if (step.predicts()) return predict(step, m);
  for (const auto& b : binding_.layers) run_forward(b, step, m, false);
}

GPIPE_INLINE GPIPE_OUT_OF_LINE void bound_stage::pass_on(const step_context& step, int m) {
  for (const auto& p : binding_.copies)
    if (!step.predicts() || net_->values[p.value].writer < net_->loss_layer()) copy(p, step, m);
}

GPIPE_INLINE GPIPE_OUT_OF_LINE void bound_stage::recompute(const step_context& step, int m) {
  if (binding_.first_recomputed >= 0) return recompute_before(at(binding_.first_recomputed), step, m);
  for (const auto& b : binding_.layers)
    if (b.rerun) run_forward(b, step, m, true);
}

GPIPE_INLINE GPIPE_OUT_OF_LINE void bound_stage::backward(const step_context& step, int m,
                                                          gradient_listener* listener) {
  begin_backward(step, m);
  for (auto b = binding_.layers.rbegin(); b != binding_.layers.rend(); ++b) {
    if (b->layer_index != binding_.first_recomputed) recompute_before(*b, step, m);
    enter(*b, m);
    clear_unread(*b, step, m);
    hooks_.before_backward(*b, step, m);
    run_both_parts(*b, step, m);
    hooks_.after_both_parts(*b, step, m);
    if (listener != nullptr) report_complete(*listener, *b, m);
  }
  hooks_.after_backward(binding_.layers, m);
}

GPIPE_INLINE GPIPE_OUT_OF_LINE void bound_stage::backward_input(const step_context& step, int m) {
  begin_backward(step, m);
  for (auto b = binding_.layers.rbegin(); b != binding_.layers.rend(); ++b) {
    if (b->layer_index != binding_.first_recomputed) recompute_before(*b, step, m);
    enter(*b, m);
    clear_unread(*b, step, m);
    hooks_.before_backward(*b, step, m);
    if (b->waits) run_input_part(*b, step, m);
    else run_both_parts(*b, step, m);
    hooks_.after_input_part(*b, step, m);
  }
}

GPIPE_INLINE GPIPE_OUT_OF_LINE void bound_stage::refresh() {
  for (const auto& b : binding_.layers)
    if (net_->owns(b.layer_index)) refresh(b);
}

GPIPE_INLINE GPIPE_COLD void bound_stage::refresh(const bool* layers) {
  forget_packed();
  for (const auto& b : binding_.layers)
    if (layers[b.layer_index] && net_->owns(b.layer_index)) refresh(b);
}

GPIPE_INLINE GPIPE_OUT_OF_LINE void bound_stage::copy_tied_values(const named_array& user, const std::byte* values) {
  const bound& b = at(user.layer_index);
  std::byte* const target = b.parameter_at[index(user.index)];
  const std::size_t bytes = b.layer->parameters[user.index].extents.size() * bytes_of(b.layer->type);
  if (values != target) context_.copy(static_cast<std::ptrdiff_t>(bytes), values, target);
}

GPIPE_INLINE GPIPE_OUT_OF_LINE void bound_stage::add_tied_gradients(const tie& t, const std::byte* gradients) {
  const bound& b = at(t.owner.layer_index);
  const shape& extents = description_of(*net_, t.user).extents;
  add(b.layer->type, static_cast<std::ptrdiff_t>(extents.size()), gradients,
      b.gradient_at[index(t.owner.index)] + t.before);
}

GPIPE_INLINE void bound_stage::updated() {
  const stage_share& share = base::share();
  for (int l = share.first; l < share.last; ++l)
    hooks_.after_update(at(l), base::moments(0) + (at(l).owned.parameters - base::updated_parameters()),
                        static_cast<std::size_t>(base::memory().share));
}

GPIPE_INLINE void bound_stage::refresh(const bound& b) {
  packed_for(b) = reader::none;
  if (b.packed != packed_weights::kept || b.kernels->refresh == nullptr) return;
  enter(b, -1);
  b.kernels->refresh(handle_, call_of(b, step_context{}, 0, false));
}

GPIPE_INLINE void bound_stage::refresh_as(const bound& b, detail::refresh_for kernel, const call& arguments) {
  if (b.kernels->refresh == nullptr) return;
  call c = arguments;
  c.refreshed = kernel;
  b.kernels->refresh(handle_, c);
}

GPIPE_INLINE GPIPE_OUT_OF_LINE void bound_stage::predict(const step_context& step, int m) {
  const int loss = net_->loss_layer();
  for (const auto& b : binding_.layers) {
    if (detail::makes_columns(*net_, b.layer_index)) predict_columns(b, step, m);
    else if (b.layer_index < loss && !b.layer->auxiliary_loss()) run_forward(b, step, m, false);
    if (b.layer_index != loss || detail::is_in_columns(*b.layer)) continue;
    const int first = step.samples_before + step.first_sample(m);
    if (const int extra = b.layer->predicted; extra >= 0) {
      enter(b, m);
      const call c = call_of(b, step, m, false);
      pack_before(b, detail::refresh_for::forward, c);
      refresh_before(b, detail::refresh_for::forward, c);
      b.kernels->predict(handle_, c);
      const edge_part made{b.layer->extras[extra].size, b.layer->extras[extra].type};
      context_.download(static_cast<std::ptrdiff_t>(made.size * bytes_of(made.type)) * step.samples(m),
                        c.extras + b.layer->extra_offset(extra, c.capacity), step.predicted->at(0, first));
      continue;
    }
    for (int i = 0; i < b.inputs; ++i)
      context_.download(bytes(b.value_in[i], step, m), b.in[i].at(m, false), step.predicted->at(i, first));
  }
}

GPIPE_INLINE GPIPE_OUT_OF_LINE void bound_stage::predict_columns(const bound& b, const step_context& step, int m) {
  enter(b, m);
  const detail::column_range range = detail::columns_in_row(*net_, b.layer_index);
  const row_blocks& blocks = b.layer->lists->predicted;
  call c = call_of(b, step, m, false);
  std::byte* const target = step.predicted->at(0, step.samples_before + step.first_sample(m)) + range.first;
  pack_before(b, detail::refresh_for::forward, c);
  refresh_before(b, detail::refresh_for::forward, c);
  for (int first = 0; first < c.samples * blocks.rows; first += c.samples * blocks.block, ++c.block) {
    b.kernels->predict(handle_, c);
    const int rows = (std::min)(c.samples * blocks.block, c.samples * blocks.rows - first);
    context_.download_rows(rows, static_cast<std::ptrdiff_t>(range.bytes),
                           c.extras + b.layer->extra_offset(b.layer->predicted, c.capacity),
                           target + detail::index(first) * range.of_row, static_cast<std::ptrdiff_t>(range.of_row));
  }
}

GPIPE_INLINE GPIPE_OUT_OF_LINE void bound_stage::clear_each_frozen(const bound& b) {
  for (std::size_t p = 0; p < b.frozen_parameters.size(); ++p)
    if (b.frozen_parameters[p])
      context_.fill(static_cast<std::ptrdiff_t>(b.layer->parameters[p].extents.size() * bytes_of(b.layer->type)),
                    std::byte{0}, b.gradient_at[p]);
}

GPIPE_INLINE GPIPE_OUT_OF_LINE void bound_stage::add_up(const bound& b, const step_context& step, int m) {
  for (int i = 0; i < b.inputs; ++i)
    if (b.sum[i].base != nullptr) add(b.value_in[i], b.in_gradient[i], b.sum[i], step, m);
}

}  // namespace gpipe::detail
