#pragma once

#include <cstdint>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include <gpipe/core/config.hpp>
#include <gpipe/plan/memory/memory_kind.hpp>
#include <gpipe/plan/memory/requirements.hpp>
#include <gpipe/runtime/binding/kernel_table.hpp>
#include <gpipe/runtime/step/step_context.hpp>
#include <gpipe/runtime/step/tensor_rows.hpp>

namespace gpipe::detail {

/// The slot of each micro-batch, [micro-batch]: `forward` in the forward pass, `backward` in recompute and backward.
/// Null: one slot for all.
struct slot_table {
  const int *forward = nullptr, *backward = nullptr;

  constexpr slot_table() = default;
  constexpr explicit slot_table(const int* both) : forward(both), backward(both) {}
  constexpr slot_table(const int* first, const int* later) : forward(first), backward(later) {}
};

/// The address of a buffer: one address, or one for each slot of its micro-batches. The values of a recomputed layer
/// have another buffer in backward.
struct block_address {
  std::byte* base = nullptr;
  std::size_t stride = 0;
  slot_table memory_slots{};
  std::byte* backward_base = nullptr;  ///< null: the same buffer
  std::size_t backward_stride = 0;

  std::byte* at(int m, bool backward) const {
    const bool separate = backward && backward_base != nullptr;
    const int* const slot_numbers = backward ? memory_slots.backward : memory_slots.forward;
    std::byte* const buffer = separate ? backward_base : base;
    return slot_numbers == nullptr ? buffer : buffer + (separate ? backward_stride : stride) * index(slot_numbers[m]);
  }
  /// The same with the address of another buffer in backward.
  block_address then(const block_address& later) const {
    block_address both = *this;
    both.memory_slots.backward = later.memory_slots.backward;
    both.backward_base = later.base;
    both.backward_stride = later.stride;
    return both;
  }
};

/// The blocks of one stage's arena, by their contents. It is used to bind stages, and not during steps.
class arena_map {
 public:
  explicit arena_map(std::byte* base) : base_(base) {}

  void add(const memory_block& b) { blocks_[{b.kind, b.layer_index, b.value, b.index}] = b; }

  bool has(memory_kind kind, int layer, int value, int index = 0) const {
    return blocks_.count({kind, layer, value, index}) > 0;
  }
  GPIPE_COLD block_address find(memory_kind kind, int layer, int value, slot_table memory_slots = {},
                                int index = 0) const {
    const memory_block& b = blocks_.at({kind, layer, value, index});
    return {base_ + b.offset, b.stride > 0 ? b.stride : b.bytes, b.copies > 1 ? memory_slots : slot_table{}};
  }

 private:
  std::byte* base_;
  std::map<std::tuple<memory_kind, int, int, int>, memory_block> blocks_;
};

/// Rows that are copied out of a watched layer in every step.
struct watched_rows {
  tensor_rows outputs, gradients;
};

/// Adjacent parameters, and their gradients.
struct parameter_block {
  std::byte *parameters = nullptr, *gradients = nullptr;
  std::size_t bytes = 0;
};

/// One layer with an address for everything that it reads and writes.
struct bound_layer {
  const layer_type* layer = nullptr;
  const kernel_row* kernels = nullptr;
  int layer_index = -1;
  bool has_frozen = false;              ///< some of its parameters are frozen
  bool rerun = false;                   ///< a recompute of a whole micro-batch must run it
  std::vector<int> recomputed;          ///< the layers that run forward again before its backward
  bool waits = false;                   ///< its parameter part comes after all input parts, if backward has two
  bool wants_input = false;             ///< some input needs a gradient
  bool frozen = false;                  ///< its parameters do not change
  std::vector<bool> frozen_parameters;  ///< the parameters that do not, by their group or by a call
  std::vector<bool> frozen_by_call;
  watched_rows* watched = nullptr;  ///< its rows are copied there; null: the layer is not watched
  int inputs = 0, outputs = 0;
  int value_in[max_tensors_per_edge]{}, value_out[max_tensors_per_edge]{};
  block_address in[max_tensors_per_edge], out[max_tensors_per_edge];
  block_address in_gradient[max_tensors_per_edge], out_gradient[max_tensors_per_edge];
  block_address sum[max_tensors_per_edge];  ///< in_gradient is added to it; null: in_gradient is written in place
  bool unread[max_tensors_per_edge]{};      ///< no layer reads the output: its gradient is zeros
  block_address extras, backward_extras, forward_workspace, workspace, partials, fields[max_fields];
  parameter_block owned;  ///< in the stage's flat arrays
  parameter_block tied;   ///< copies of parameters that other layers own, and their gradients of this use alone
  std::vector<std::byte*> parameter_at, gradient_at;  ///< of each parameter
  std::byte *state = nullptr, *derived = nullptr;
  packed_weights packed = packed_weights::kept;  ///< when `derived` is written
  std::byte* next_state = nullptr;   ///< after the commit, if it holds; null: the layer has no state, or nothing trains
  double* sum_of_squares = nullptr;  ///< of its gradient; before that, free for other sums
};

/// The bytes of a value go from one buffer to another: copied forward, added backward.
struct buffer_pair {
  int value = -1;
  block_address source, target;
};

/// A stage's addresses.
struct binding {
  std::vector<bound_layer> layers;
  std::vector<buffer_pair> copies;  ///< sent values that the stage keeps, or sends to several stages
  std::vector<buffer_pair> folds;   ///< gradients from several readers, added to the first
  int first_recomputed = -1;        ///< the layer before whose backward layers run forward again first; -1: none
};

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
