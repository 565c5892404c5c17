#pragma once

#include <gpipe/core/config.hpp>
#include <gpipe/cuda/attentions.hpp>

namespace gpipe::cuda {

// change: a kernel operation
/// Runs the kernels of a stage's layers on a stream of a GPU. Operations execute in the order in which they were
/// enqueued, and only `finish` waits and reports a failure; after a failure nothing more is enqueued. It has the
/// operations of host::basic_context, so that layers compile for both. Each operation gives the same bits for the same
/// values on one kind of GPU: sums have a fixed order, which may differ from the host's. For one thread at a time.
///
///     work_queue          transfers, marks, graphs, finish
///     loops               each, rows, columns, sum, copy, fill, add
///     products            pack, multiply
///     convolutions        convolve, convolve_backward_input
///     weight_gradients    multiply_transposed, convolve_backward_weight
///     attentions          attention, attention_backward
class context : public attentions {
 public:
  GPIPE_COLD explicit context(int gpu = 0) : attentions(gpu) {}
};

}  // namespace gpipe::cuda
