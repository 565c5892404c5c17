#pragma once

#include <vector>

#include <gpipe/core/config.hpp>
#include <gpipe/plan/memory/lifetime.hpp>
#include <gpipe/plan/memory/requirements.hpp>
#include <gpipe/plan/stages/stage_view.hpp>
#include <gpipe/runtime/binding/binding.hpp>

namespace gpipe::detail {

/// Detects layers that read values that they did not keep, or that no layer has written. When a buffer of a stage's
/// working set dies, all its bits are set, which is NaN in every floating-point type and -1 in integers. Without the
/// canary, such a layer goes unnoticed until another buffer in the same memory is written.
class canary {
 public:
  GPIPE_COLD canary(const stage_view& stage, const memory_requirements& terms, const std::vector<bound_layer>& layers)
      : first_(stage.first()), recomputes_(stage.first_recomputed() >= 0), dead_(layers.size()) {
    const network& net = stage.net();
    const lifetimes life(stage, terms.split || stage.sends_gradients());
    const auto bytes = [&](int v) { return net.values[v].part.bytes(terms.micro_batch_size); };
    for (int l = stage.first(); l < stage.last(); ++l) {
      const bound_layer& b = layers[at(l)];
      deaths& dying = dead_[at(l)];
      life.dies_after_forward(l, [&](int v) {
        if (!stage.sent(v)) dying.forward.push_back({where(b, v), bytes(v)});
      });
      if (stage.recomputed(l)) {
        if (b.layer->extra_count > 0) dying.forward.push_back({b.extras, b.layer->extra_bytes(terms.micro_batch_size)});
        for (int o = 0; o < b.outputs; ++o)
          dead_[at(life.last_reader(b.value_out[o]))].input.push_back({b.out[o], bytes(b.value_out[o])});
      }
      if (b.layer->forward_workspace_count > 0)
        dying.call.push_back({b.forward_workspace, b.layer->forward_workspace_bytes(terms.micro_batch_size)});
      // Buffers that parameter parts read live until these have run.
      if (b.layer->extra_count > 0)
        (life.waits(l) ? dying.parameters : dying.input)
            .push_back({b.extras, b.layer->extra_bytes(terms.micro_batch_size)});
      if (b.layer->backward_extra_count > 0)
        (life.waits(l) ? dying.parameters : dying.input)
            .push_back({b.backward_extras, b.layer->backward_extra_bytes(terms.micro_batch_size)});
      if (b.layer->workspace_count > 0)
        (life.works_late(l) ? dying.parameters : dying.input)
            .push_back({b.workspace, b.layer->workspace_bytes(terms.micro_batch_size)});
      life.held(l, [&](int v) { (life.waits(l) ? dying.parameters : dying.input).push_back({where(b, v), bytes(v)}); });
      life.consumed(l, [&](int v) {
        for (int o = 0; o < b.outputs; ++o)
          if (b.value_out[o] == v)
            (life.waits(l) ? dying.parameters : dying.input).push_back({b.out_gradient[o], bytes(v)});
      });
    }
  }

  /// Called after forward, the input part and the parameter part of a layer.
  void after_forward(const device_context& c, int layer, int m, bool recompute) const {
    poison(c, dead_[at(layer)].call, m, recompute);
    if (!(recompute && recomputes_)) poison(c, dead_[at(layer)].forward, m, recompute);
  }
  void after_input_part(const device_context& c, int layer, int m) const { poison(c, dead_[at(layer)].input, m, true); }
  void after_parameter_part(const device_context& c, int layer, int m) const {
    poison(c, dead_[at(layer)].parameters, m, true);
  }

 private:
  struct buffer {
    block_address address;
    std::size_t bytes;
  };
  struct deaths {
    std::vector<buffer> call, forward, input, parameters;  ///< call: of forward, also in a recompute
  };

  std::size_t at(int layer) const { return index(layer - first_); }

  static block_address where(const bound_layer& b, int v) {
    for (int i = 0; i < b.inputs; ++i)
      if (b.value_in[i] == v) return b.in[i];
    for (int o = 0; o < b.outputs; ++o)
      if (b.value_out[o] == v) return b.out[o];
    return {};
  }

  static void poison(const device_context& c, const std::vector<buffer>& dead, int m, bool backward) {
    for (const buffer& b : dead)
      c.fill(static_cast<std::ptrdiff_t>(b.bytes), std::byte{0xff}, b.address.at(m, backward));
  }

  int first_;
  bool recomputes_;  ///< some layers are recomputed, and their buffers live on in backward
  std::vector<deaths> dead_;
};

}  // namespace gpipe::detail
