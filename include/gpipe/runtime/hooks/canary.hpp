#pragma once

#include <vector>

#include <gpipe/plan/memory/lifetime.hpp>
#include <gpipe/runtime/binding/binding.hpp>

namespace gpipe::detail {

/// Finds layers that read what they did not keep, or what nobody has written: every buffer of a stage's working set is
/// poisoned when it dies, all bits set, which is NaN in every floating-point type and -1 in integers. (That buffers
/// share memory hides such a layer for as long as nothing else has been written there.)
template <class Context>
class canary {
 public:
  GPIPE_COLD canary(const stage_view& stage, const memory_requirements& terms, const std::vector<bound_slot<Context>>& slots)
      : first_(stage.first()), dead_(slots.size()) {
    const network& net = stage.net();
    const lifetimes life(stage, terms.split || stage.sends_gradients());
    const auto bytes = [&](int v) { return net.values[v].part.bytes(terms.micro_batch_size); };
    for (int l = stage.first(); l < stage.last(); ++l) {
      const bound_slot<Context>& b = slots[index(l)];
      deaths& at = dead_[index(l)];
      life.dies_after_forward(l, [&](int v) {
        if (!stage.sent(v)) at.forward.push_back({where(b, v), bytes(v)});
      });
      // What parameter parts read lives until these have run.
      if (b.layer->extra_count > 0)
        (life.waits(l) ? at.parameters : at.input).push_back({b.extras, b.layer->extra_bytes(terms.micro_batch_size)});
      life.held(l, [&](int v) { (life.waits(l) ? at.parameters : at.input).push_back({where(b, v), bytes(v)}); });
      life.consumed(l, [&](int v) {
        for (int o = 0; o < b.outputs; ++o)
          if (b.value_out[o] == v) (life.waits(l) ? at.parameters : at.input).push_back({b.out_gradient[o], bytes(v)});
      });
    }
  }

  /// After a slot ran forward, its input part, its parameter part.
  void after_forward(const Context& c, int slot, int m, bool again) const {
    poison(c, dead_[index(slot)].forward, m, again);
  }
  void after_input_part(const Context& c, int slot, int m) const { poison(c, dead_[index(slot)].input, m, true); }
  void after_parameter_part(const Context& c, int slot, int m) const {
    poison(c, dead_[index(slot)].parameters, m, true);
  }

 private:
  struct buffer {
    block_address at;
    std::size_t bytes;
  };
  struct deaths {
    std::vector<buffer> forward, input, parameters;
  };

  std::size_t index(int slot) const { return static_cast<std::size_t>(slot - first_); }

  static block_address where(const bound_slot<Context>& b, int v) {
    for (int i = 0; i < b.inputs; ++i)
      if (b.value_in[i] == v) return b.in[i];
    for (int o = 0; o < b.outputs; ++o)
      if (b.value_out[o] == v) return b.out[o];
    return {};
  }

  static void poison(const Context& c, const std::vector<buffer>& dead, int m, bool again) {
    for (const buffer& b : dead)
      c.fill(static_cast<std::ptrdiff_t>(b.bytes), std::byte{0xff}, b.at.at(m, again));
  }

  int first_;
  std::vector<deaths> dead_;
};

}  // namespace gpipe::detail
