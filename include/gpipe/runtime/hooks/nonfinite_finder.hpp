#pragma once

#include <cmath>
#include <string>

#include <gpipe/core/numbers/double_bits.hpp>
#include <gpipe/runtime/binding/binding.hpp>
#include <gpipe/runtime/step/step_context.hpp>
#include <gpipe/runtime/step/step_input.hpp>

namespace gpipe::detail {

// assumes: one parameter type
/// Finds the first number that is not finite, layer by layer, when a pass is repeated because its loss or norm was not
/// finite. Throws `error`, which names the layer and the buffer.
class nonfinite_finder {
 public:
  using bound = bound_layer;

  nonfinite_finder(const device_context& context, const network& net, int stage)
      : context_(context), net_(net), stage_(stage) {}

  /// Checks the model's inputs and the fields that this layer reads.
  GPIPE_COLD void check_inputs(const bound& b, const step_context& step, int m, bool recompute) const {
    for (int i = 0; i < b.inputs; ++i)
      if (const int v = b.value_in[i]; v < net_.entering && !finite(v, b, m, b.in[i].at(m, recompute), step))
        not_finite(b, step, m, "the field \"inputs\" of the data",
                   location_in(step.rows.inputs, net_.values[0].part.type, net_.values[0].part.size, step, m));
    for (int f = 0; f < b.layer->field_count; ++f) {
      const auto& field = b.layer->fields[f];
      const auto n = static_cast<std::ptrdiff_t>(field.size) * step.samples(m);
      if (const std::byte* rows = step.rows.fields[index(b.layer->field_index[f])];
          rows != nullptr && !finite(b, field.type, n, b.fields[f].at(m, recompute)))
        not_finite(b, step, m, concat({"the field \"", field.name, "\" of the data"}),
                   location_in(rows, field.type, field.size, step, m));
    }
  }
  GPIPE_COLD void check_outputs(const bound& b, const step_context& step, int m, const call& done) const {
    for (int o = 0; o < b.outputs; ++o)
      if (!finite(b.value_out[o], b, m, b.out[o].at(m, done.recompute), step)) {
        check_parameters(b, step, m);
        not_finite(b, step, m, "its output");
      }
    const bool has_partials = step.trains() || b.layer->state_count == 0;
    if (!done.recompute && has_partials &&
        !all_finite(b, dtype::float64, static_cast<std::ptrdiff_t>(b.layer->partial_elements()), done.partials))
      not_finite(b, step, m, "its loss or another of its partials");
  }
  /// Called before the gradients are sent, because then another stage may change them.
  GPIPE_COLD void check_input_part(const bound& b, const step_context& step, int m) const {
    for (int i = 0; i < b.inputs; ++i)
      if (b.in_gradient[i].base != nullptr)
        check(b, m, "the gradient of its input", b.value_in[i], b.in_gradient[i].at(m, true), step);
  }
  GPIPE_COLD void check_parameter_part(const bound& b, const step_context& step, int m) const {
    for (const parameter_block* block : {&b.owned, &b.tied})
      if (!finite(b, b.layer->type, static_cast<std::ptrdiff_t>(block->bytes / bytes_of(b.layer->type)),
                  block->gradients))
        not_finite(b, step, m, "the gradient of its parameters");
  }

 private:
  bool all_finite(const bound& b, dtype type, std::ptrdiff_t n, const void* data) const {
    double sum = 0;
    context_.sum_nonfinite(type, n, data, b.sum_of_squares);
    context_.download(sizeof sum, reinterpret_cast<const std::byte*>(b.sum_of_squares),
                      reinterpret_cast<std::byte*>(&sum));
    context_.finish();
    return is_finite(sum);
  }
  GPIPE_COLD bool finite(const bound& b, dtype type, std::ptrdiff_t n, const std::byte* data) const {
    return !is_floating(type) || all_finite(b, type, n, data);
  }
  GPIPE_COLD bool finite(int v, const bound& b, int m, const std::byte* data, const step_context& step) const {
    const edge_part& part = net_.values[v].part;
    return finite(b, part.type, static_cast<std::ptrdiff_t>(part.size) * step.samples(m), data);
  }
  GPIPE_COLD void check(const bound& b, int m, const std::string& description, int v, const std::byte* data,
                        const step_context& step) const {
    if (!finite(v, b, m, data, step)) not_finite(b, step, m, description);
  }
  /// A parameter that is not finite is the cause of an output that is not.
  GPIPE_COLD void check_parameters(const bound& b, const step_context& step, int m) const {
    for (int p = 0; p < b.layer->parameter_count; ++p) {
      const parameter& parameter = b.layer->parameters[p];
      if (!finite(b, b.layer->type, static_cast<std::ptrdiff_t>(parameter.extents.size()), b.parameter_at[index(p)]))
        not_finite(b, step, m, concat({"its parameter \"", parameter.name, "\""}));
    }
  }
  /// A field's first number that is not finite: its sample and its column, from the rows of the batch.
  template <class T>
  static std::ptrdiff_t first_nonfinite(const std::byte* rows, std::ptrdiff_t begin, std::ptrdiff_t end) {
    const T* x = reinterpret_cast<const T*>(rows);
    while (begin < end && is_finite(static_cast<double>(x[begin]))) ++begin;
    return begin;
  }
  // assumes: half precision is bf16
  GPIPE_COLD static std::string location_in(const std::byte* rows, dtype type, std::size_t columns,
                                            const step_context& step, int m) {
    if (!is_floating(type)) return {};
    const auto size = static_cast<std::ptrdiff_t>(columns);
    const std::ptrdiff_t begin = size * step.first_sample(m), end = begin + size * step.samples(m);
    const std::ptrdiff_t position =
        visit_dtype<float, double, bf16>(type, [&]<class T>() { return first_nonfinite<T>(rows, begin, end); });
    if (position == end) return {};
    return concat({" in ", name_of_sample(step.rows.dataset_rows, static_cast<std::size_t>(position / size)),
                   ", column ", position % size, " (counted from 0)"});
  }
  [[noreturn]] GPIPE_COLD void not_finite(const bound& b, const step_context& step, int m,
                                          const std::string& description, const std::string& location = {}) const {
    throw_error(
        {description, " is not finite", location},
        {location.empty() ? "look for such numbers in the data, or lower the learning rate" : "correct the data",
         "; parameters are as before the step"},
        {.layer = std::string(b.layer->name),
         .layer_index = b.layer_index,
         .stage = stage_,
         .micro_batch = step.global_micro_batch(m)});
  }

  const device_context& context_;
  const network& net_;
  int stage_;
};

}  // namespace gpipe::detail
