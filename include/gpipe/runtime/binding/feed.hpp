#pragma once

#include <gpipe/runtime/binding/binding.hpp>
#include <gpipe/runtime/step/step_context.hpp>

namespace gpipe::detail {

/// Uploads a micro-batch's rows of a tensor; ones, where an optional field is absent.
template <class Into>
void upload_rows(const Into& c, const std::byte* from, std::size_t size, dtype type, const step_state& step, int m,
                 std::byte* into) {
  const auto n = static_cast<std::ptrdiff_t>(size) * step.samples(m);
  const auto bytes = static_cast<std::ptrdiff_t>(bytes_of(type));
  if (from != nullptr)
    c.upload(n * bytes, from + static_cast<std::ptrdiff_t>(size) * step.first_sample(m) * bytes, into);
  else if (type == dtype::float32) c.fill(n, 1.0F, reinterpret_cast<float*>(into));
  else if (type == dtype::float64) c.fill(n, 1.0, reinterpret_cast<double*>(into));
  else if (type == dtype::bf16) c.fill(n, bf16(1), reinterpret_cast<bf16*>(into));
  else if (type == dtype::int32) c.fill(n, std::int32_t{1}, reinterpret_cast<std::int32_t*>(into));
  else c.fill(n, std::byte{1}, into);
}

/// Uploads what a slot reads from outside into the stash: the micro-batch's rows of the model's input and its fields.
/// `c` is a context, or what remembers a context's uploads.
template <class Into, class Context>
GPIPE_OUT_OF_LINE void feed(const Into& c, const network& net, const bound_slot<Context>& b, const step_state& step,
                            int m) {
  for (int i = 0; i < b.inputs; ++i)
    if (const int v = b.value_in[i]; v < net.entering)
      upload_rows(c, step.rows.inputs, net.values[v].part.size, net.values[v].part.type, step, m, b.in[i].at(m, false));
  for (int f = 0; f < b.layer->field_count; ++f)
    upload_rows(c, step.rows.fields[static_cast<std::size_t>(b.layer->field_index[f])], b.layer->fields[f].size,
              b.layer->fields[f].type, step, m, b.fields[f].at(m, false));
}

}  // namespace gpipe::detail
