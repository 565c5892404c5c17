#pragma once

#include <utility>
#include <vector>

#include <gpipe/plan/memory/requirements.hpp>
#include <gpipe/runtime/binding/arena_map.hpp>
#include <gpipe/runtime/binding/kernel_table.hpp>
#include <gpipe/runtime/step/tensor_rows.hpp>

namespace gpipe::detail {

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

}  // namespace gpipe::detail
