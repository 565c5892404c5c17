#pragma once

#include <vector>

#include <gpipe/core/config.hpp>
#include <gpipe/core/zeroed_array.hpp>
#include <gpipe/plan/memory/lifetime.hpp>
#include <gpipe/plan/memory/memory_kind.hpp>
#include <gpipe/plan/memory/packing.hpp>
#include <gpipe/plan/memory/shares.hpp>
#include <gpipe/plan/stages/stage_view.hpp>
#include <gpipe/plan/step_plan.hpp>
#include <gpipe/runtime/binding/binding.hpp>

namespace gpipe::detail {

// assumes: links in a process move no bytes
/// Finds every address of a stage. `maps[s]` holds the blocks of stage s of the same replica. A layer whose output only
/// a later stage reads writes directly into that stage's stash, and a gradient goes directly into the writer's stage.
/// If maps[s] is null, stage s is in another process; values for it are written to this stage's outgoing buffers.
class binder {
 public:
  binder(const network& net, const step_plan& plan, const std::vector<const arena_map*>& maps, int stage,
         int replica = 0)
      : net_(net),
        plan_(plan),
        maps_(maps),
        s_(net, plan.cut(), stage),
        life_(s_, plan.requirements(stage).split || s_.sends_gradients()),
        rerun_(s_.last() - s_.first()),
        micro_batch_slots_(plan.own_slots.data() + replica * plan.micro_batches()),
        share_(share_of_replica(s_, plan.requirements(stage).shares, replica)) {
    s_.mark_rerun(rerun_.data());
  }

  GPIPE_COLD binding bind(const kernel_row* kernels) {
    binding b;
    for (int l = s_.first(); l < s_.last(); ++l) {
      b.layers.push_back(bind_layer(l, kernels));
      for (int o = 0; o < net_.layers[l].writes; ++o) pass_on(net_.writes_value(l, o), b);
    }
    for (int l = s_.first(); l < s_.last(); ++l)
      if (s_.recomputed(l)) b.layers[index(s_.recomputed_before(l) - s_.first())].recomputed.push_back(l);
    b.first_recomputed = s_.first_recomputed();
    return b;
  }

 private:
  const arena_map& map(int stage) const { return *maps_[index(stage)]; }
  const arena_map& here() const { return map(s_.stage()); }
  const stage_slots& slots_here() const { return plan_.slots_of_stages[index(s_.stage())]; }
  slot_table kept_slots() const { return {slots_here().forward.data(), slots_here().backward.data()}; }
  slot_table entering_slots() const { return slot_table(slots_here().entering.data()); }
  const link_slots& between(int source, int target) const {
    std::size_t k = 0;
    while (plan_.links[k].source != source || plan_.links[k].target != target) ++k;
    return plan_.slots_of_links[k];
  }
  int stage_of(int layer) const { return plan_.cut().stage_of(layer); }
  bool remote(int stage) const { return maps_[index(stage)] == nullptr; }
  block_address outgoing(int v, int index) const {
    return here().find(memory_kind::outgoing, -1, v, slot_table(plan_.leaving.data()), index);
  }

  /// A value that enters the model, or that an earlier stage writes, in the stage that reads it.
  GPIPE_COLD block_address stashed(int v, int stage) const {
    if (remote(stage)) return outgoing(v, 0);
    const int writer = stage_of(net_.values[v].writer);
    const auto memory_slots = writer < 0 ? entering_slots() : slot_table(between(writer, stage).stash.data());
    return map(stage).find(memory_kind::stash, -1, v, memory_slots);
  }
  /// The `index`-th gradient that stage `maker` returns to the stage that writes the value.
  GPIPE_COLD block_address returned(int v, int stage, int index, int maker) const {
    if (remote(stage)) return plan_.trains ? outgoing(v, index) : block_address{};
    return map(stage).find(memory_kind::returned, -1, v, slot_table(between(stage, maker).returned.data()), index);
  }

  /// The lowest later stage that reads a sent value.
  int first_destination(int v) const {
    int i = 0;
    while (net_.reader(v, i) < s_.last()) ++i;
    return stage_of(net_.reader(v, i));
  }

  GPIPE_COLD block_address activation(int v) const {
    if (s_.boundary(v)) return stashed(v, s_.stage());
    if (s_.kept(v)) return here().find(memory_kind::kept, -1, v, kept_slots());
    if (s_.direct(v)) return stashed(v, first_destination(v));
    const block_address forward = here().find(memory_kind::activations, -1, v);
    return s_.recomputed(net_.values[v].writer) ? forward.then(recomputed(-1, v)) : forward;
  }
  /// A buffer that a recomputed layer writes again: a value, its extras, or, with index 1, forward's workspace.
  GPIPE_COLD block_address recomputed(int layer, int v, int index = 0) const {
    return here().find(memory_kind::recomputed, layer, v, kept_slots(), index);
  }
  GPIPE_COLD block_address forward_workspace(int l) const {
    const block_address forward = here().find(memory_kind::activations, l, -1, {}, 1);
    return s_.recomputed(l) ? forward.then(recomputed(l, -1, 1)) : forward;
  }
  GPIPE_COLD block_address backward_extras(int l) const {
    if (here().has(memory_kind::held, l, -1))
      return here().find(memory_kind::held, l, -1, slot_table(slots_here().held.data()));
    return here().find(memory_kind::backward, l, -1, kept_slots());
  }

  /// The buffer where the gradients of a value are added up, for its `index`-th reader.
  GPIPE_COLD block_address gradient(int v, int index) const {
    const int writer = stage_of(net_.values[v].writer);
    if (writer != s_.stage()) return returned(v, writer, s_.return_of(v, index), s_.stage());
    if (s_.sent(v)) return returned(v, writer, 0, s_.top_stage(v));
    if (here().has(memory_kind::held, -1, v))
      return here().find(memory_kind::held, -1, v, slot_table(slots_here().held.data()));
    return here().find(memory_kind::backward, -1, v, kept_slots());
  }

  GPIPE_COLD bound_layer bind_layer(int l, const kernel_row* kernels) const {
    const layer_type& type = net_.type_of(l);
    bound_layer b;
    b.layer = &type;
    b.kernels = kernels + net_.layers[l].type;
    b.layer_index = l;
    b.rerun = rerun_[l - s_.first()];
    b.waits = life_.waits(l);
    b.inputs = type.inputs;
    b.outputs = type.outputs;
    std::size_t scratch = 0;
    for (int i = 0; i < type.inputs; ++i) {
      const int v = b.value_in[i] = net_.reads_value(l, i);
      b.in[i] = activation(v);
      if (!net_.values[v].gradient) continue;
      b.wants_input = true;
      const int index = s_.reader_index(v, l, i);
      b.in_gradient[i] = gradient(v, index);
      if (!s_.adds(v, index)) continue;
      b.sum[i] = b.in_gradient[i];
      b.in_gradient[i] = here().find(memory_kind::scratch, l, -1, kept_slots());
      b.in_gradient[i].base += scratch;
      scratch += net_.values[v].part.bytes(plan_.options.micro_batch_size);
    }
    for (int o = 0; o < type.outputs; ++o) {
      const int v = b.value_out[o] = net_.writes_value(l, o);
      b.out[o] = activation(v);
      if (net_.values[v].gradient) b.out_gradient[o] = gradient(v, 0);
      b.unread[o] = net_.values[v].gradient && net_.values[v].readers == 0;
    }
    for (int f = 0; f < type.field_count; ++f)
      b.fields[f] = here().find(memory_kind::stash, l, -1, entering_slots(), f);
    if (type.extra_count > 0)
      b.extras = s_.recomputed(l) ? here().find(memory_kind::activations, l, -1).then(recomputed(l, -1))
                                  : here().find(memory_kind::kept, l, -1, kept_slots());
    if (type.backward_extra_count > 0) b.backward_extras = backward_extras(l);
    if (type.forward_workspace_count > 0) b.forward_workspace = forward_workspace(l);
    if (type.workspace_count > 0) b.workspace = here().find(memory_kind::workspace, l, -1, kept_slots());
    if (type.partial_count > 0) b.partials = here().find(memory_kind::partials, l, -1, slot_table(micro_batch_slots_));
    bind_parameters(l, b);
    if (type.state_count > 0) b.state = here().find(memory_kind::state, l, -1).base;
    if (type.state_count > 0 && plan_.trains) b.next_state = here().find(memory_kind::state, l, -1, {}, 1).base;
    b.sum_of_squares = reinterpret_cast<double*>(here().find(memory_kind::sums, -1, -1).base) + (l - s_.first());
    if (type.derived_count > 0) b.derived = here().find(memory_kind::derived, l, -1).base;
    b.packed = packing_of(type, plan_.requirements(s_.stage()));
    return b;
  }

  GPIPE_COLD void bind_parameters(int l, bound_layer& b) const {
    const bool leaves = plan_.requirements(s_.stage()).gradients_leave && !share_.has(l);
    b.owned = {here().find(memory_kind::parameters, l, -1).base,
               here().find(memory_kind::gradients, l, -1, {}, leaves ? 1 : 0).base, net_.own_bytes(l)};
    if (!net_.owns(l)) {
      b.tied = {here().find(memory_kind::tied, l, -1).base, nullptr, net_.tied_bytes(l)};
      if (plan_.trains) b.tied.gradients = here().find(memory_kind::tied, l, -1, {}, 1).base;
    }
    for (int p = 0; p < b.layer->parameter_count; ++p) {
      const bool owned = net_.owns(l, p);
      const parameter_block& block = owned ? b.owned : b.tied;
      const std::size_t offset = owned ? net_.own_bytes(l, p) : net_.tied_bytes(l, p);
      b.parameter_at.push_back(block.parameters + offset);
      // assumes: one parameter type
      b.gradient_at.push_back(block.gradients == nullptr ? nullptr : block.gradients + offset);
    }
    b.frozen_by_call.resize(b.parameter_at.size());
    b.frozen_parameters.resize(b.parameter_at.size());
  }

  GPIPE_COLD void pass_on(int v, binding& b) const {
    const value& value = net_.values[v];
    if (!s_.sent(v)) return;
    int before = s_.direct(v) ? first_destination(v) : -1;
    bool in_outgoing = before >= 0 && remote(before);
    for (int i = 0; i < value.readers; ++i) {
      const int reader_stage = stage_of(net_.reader(v, i));
      if (reader_stage <= s_.stage() || reader_stage <= before) continue;
      before = reader_stage;
      if (remote(reader_stage) && in_outgoing) continue;  // one outgoing buffer serves all remote stages
      in_outgoing = in_outgoing || remote(reader_stage);
      b.copies.push_back({v, activation(v), stashed(v, reader_stage)});
    }
    for (int k = 1; value.gradient && k < s_.returns(v); ++k)
      b.folds.push_back(
          {v, returned(v, s_.stage(), k, s_.return_stage(v, k)), returned(v, s_.stage(), 0, s_.top_stage(v))});
  }

  const network& net_;
  const step_plan& plan_;
  const std::vector<const arena_map*>& maps_;
  stage_view s_;
  lifetimes life_;
  zeroed_array<bool> rerun_;
  const int* micro_batch_slots_;  ///< slots of buffers that every micro-batch of the replica has for itself
  stage_share share_;             ///< the replica's, if there are shares
};

}  // namespace gpipe::detail
