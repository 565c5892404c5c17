#pragma once

#include <cstdint>

#include <gpipe/core/index.hpp>
#include <gpipe/plan/memory/requirements.hpp>
#include <gpipe/runtime/binding/binding.hpp>
#include <gpipe/runtime/step/step_context.hpp>

namespace gpipe::detail {

/// The arguments of a layer's kernels for a micro-batch. `backward`: in recompute or backward. `capacity`: the samples
/// of a full micro-batch.
inline GPIPE_OUT_OF_LINE call call_of(const bound_layer& b, const step_context& step, int capacity, int m,
                                      bool backward) {
  call c;
  c.samples = step.samples(m);
  c.capacity = capacity;
  c.training = step.trains();
  c.lists = b.layer->lists;
  for (int i = 0; i < b.inputs; ++i) {
    c.in[i] = b.in[i].at(m, backward);
    c.in_gradient[i] = b.in_gradient[i].at(m, backward);
  }
  for (int o = 0; o < b.outputs; ++o) {
    c.out[o] = b.out[o].at(m, backward);
    c.out_gradient[o] = b.out_gradient[o].at(m, backward);
  }
  for (int f = 0; f < b.layer->field_count; ++f) c.fields[f] = b.fields[f].at(m, backward);
  c.parameter_at = b.parameter_at.data();
  c.state = b.state;
  c.derived = b.derived;
  c.in_turn = b.packed != packed_weights::kept;
  c.gradient_at = b.gradient_at.data();
  c.extras = b.extras.at(m, backward);
  c.backward_extras = b.backward_extras.at(m, backward);
  c.forward_workspace = b.forward_workspace.at(m, backward);
  c.workspace = b.workspace.at(m, backward);
  c.partials = reinterpret_cast<double*>(b.partials.at(m, backward));
  c.partial_stride = static_cast<std::ptrdiff_t>(b.partials.stride / sizeof(double));
  c.micro_batches = step.filled_of_all();
  c.random = {step.seed, step.step, static_cast<std::uint32_t>(b.layer_index),
              static_cast<std::uint32_t>(step.samples_before + step.first_sample(m))};
  return c;
}

/// The arguments of `update_state`: the partials of all micro-batches of the step.
inline call call_of_all(const bound_layer& b, const step_context& step, int capacity) {
  call c = call_of(b, step, capacity, 0, false);
  c.partials = reinterpret_cast<double*>(b.partials.base);
  return c;
}

/// Uploads a micro-batch's rows of a tensor. An optional field that is missing is filled with ones.
template <class Into>
void upload_rows(const Into& c, const std::byte* rows, std::size_t size, dtype type, const step_context& step, int m,
                 std::byte* target) {
  const auto n = static_cast<std::ptrdiff_t>(size) * step.samples(m);
  const auto bytes = static_cast<std::ptrdiff_t>(bytes_of(type));
  if (rows != nullptr)
    c.upload(n * bytes, rows + static_cast<std::ptrdiff_t>(size) * step.first_sample(m) * bytes, target);
  else visit_dtype(type, [&]<class T>() { c.fill(n, T(1), reinterpret_cast<T*>(target)); });
}

/// Uploads the rows that a layer reads from the batch into the stash: the model's input and the layer's fields. `c` is
/// a context, or records uploads.
template <class Into>
GPIPE_OUT_OF_LINE void feed(const Into& c, const network& net, const bound_layer& b, const step_context& step, int m) {
  for (int i = 0; i < b.inputs; ++i)
    if (const int v = b.value_in[i]; v < net.entering)
      upload_rows(c, step.rows.inputs, net.values[v].part.size, net.values[v].part.type, step, m, b.in[i].at(m, false));
  for (int f = 0; f < b.layer->field_count; ++f)
    upload_rows(c, step.rows.fields[index(b.layer->field_index[f])], b.layer->fields[f].size, b.layer->fields[f].type,
                step, m, b.fields[f].at(m, false));
}

}  // namespace gpipe::detail
