#pragma once

#include <gpipe/runtime/binding/binding.hpp>
#include <gpipe/runtime/step/step_context.hpp>

namespace gpipe::detail {

/// What the kernels of a slot are called with for a micro-batch, forward or (`again`) after. `capacity`: the samples of
/// a full one.
template <class Context>
GPIPE_OUT_OF_LINE call call_of(const bound_slot<Context>& b, const step_state& step, int capacity, int m, bool again) {
  call c;
  c.samples = step.samples(m);
  c.capacity = capacity;
  c.training = step.training;
  for (int i = 0; i < b.inputs; ++i) {
    c.in[i] = b.in[i].at(m, again);
    c.in_gradient[i] = b.in_gradient[i].at(m, again);
  }
  for (int o = 0; o < b.outputs; ++o) {
    c.out[o] = b.out[o].at(m, again);
    c.out_gradient[o] = b.out_gradient[o].at(m, again);
  }
  for (int f = 0; f < b.layer->field_count; ++f) c.fields[f] = b.fields[f].at(m, again);
  c.parameters = b.parameters;
  c.state = b.state;
  c.derived = b.derived;
  c.gradients = b.gradients;
  c.extras = b.extras.at(m, again);
  c.partials = reinterpret_cast<double*>(b.partials.at(m, again));
  c.partial_stride = static_cast<std::ptrdiff_t>(b.partials.stride / sizeof(double));
  c.micro_batches = step.filled_of_all();
  c.random = {step.seed, step.step, static_cast<std::uint32_t>(b.slot),
              static_cast<std::uint32_t>(step.samples_before + step.first_sample(m))};
  return c;
}

/// For `absorb`: with what was told of all micro-batches of the step.
template <class Context>
call call_of_all(const bound_slot<Context>& b, const step_state& step, int capacity) {
  call c = call_of(b, step, capacity, 0, false);
  c.partials = reinterpret_cast<double*>(b.partials.base);
  return c;
}

}  // namespace gpipe::detail
