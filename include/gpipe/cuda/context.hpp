#pragma once

#include <cstdint>
#include <type_traits>

#include <gpipe/core/config.hpp>
#include <gpipe/core/tensors/dtype.hpp>
#include <gpipe/cuda/convolutions.hpp>
#include <gpipe/cuda/kernels/attention.hpp>
#include <gpipe/cuda/kernels/attention_bf16.hpp>
#include <gpipe/cuda/kernels/launch.hpp>
#include <gpipe/cuda/kernels/reduction_kernels.hpp>
#include <gpipe/layer/contract/attention_shape.hpp>

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
///     convolutions        convolve and its gradients, multiply_transposed
///     context             attention, attention_backward
class context : public convolutions {
 public:
  GPIPE_COLD explicit context(int gpu = 0) : convolutions(gpu) {}

  // change: an operation on attention probabilities
  /// o = softmax(scale q k^T) v of every head, and log_sums[sample][head][query] = log sum_j e^s_ij (see
  /// attention_shape). `lengths` has the number of valid keys per sample; null: all. A query without visible keys gives
  /// o = 0 and log sum -infinity. bf16 runs on tensor cores, unless the program's code for this GPU is for an
  /// architecture before sm_80, or a block's shared memory is too small; then, and in other types, in plain tiles.
  template <class T>
  void attention(const attention_shape& shape, const T* q, const T* k, const T* v, const std::int32_t* lengths, T* o,
                 compute_type<T>* log_sums) const {
    const auto count = detail::attention_work::count(shape.samples, shape.heads, shape.queries);
    if (count == 0) return;
    enqueue([&] {
      const bool done = on_tensor_cores<T>(shape, [&]<int Width>() {
        using tiles = detail::tiles_of_queries<Width>;
        const bool aligned = detail::rows_are_aligned(shape, {q, k, v, o});
        return launch_tensor_tiles<tiles, 1>(shape, shape.heads, shape.queries, detail::attend_bf16<Width>, shape, q, k,
                                             v, lengths, o, log_sums, aligned);
      });
      if (!done)
        launch_tiles(count * detail::tile_worker<T>::parts_of(shape.width), detail::attend<T>, shape, q, k, v, lengths,
                     o, log_sums);
    });
  }
  // change: an operation on attention probabilities
  /// The gradients of q, k and v from d_o; o and log_sums are the results of `attention`. Overwrites d_q, d_k and d_v.
  /// The heads that share a key head are added in ascending order.
  template <class T>
  void attention_backward(const attention_shape& shape, const T* q, const T* k, const T* v, const std::int32_t* lengths,
                          const T* o, const compute_type<T>* log_sums, const T* d_o, T* d_q, T* d_k, T* d_v) const {
    using detail::attention_work, detail::differentiate_keys, detail::differentiate_queries;
    const auto of_queries = attention_work::count(shape.samples, shape.heads, shape.queries);
    const auto of_keys = attention_work::count(shape.samples, shape.key_heads, shape.keys);
    if (of_queries == 0) return;
    enqueue([&] {
      const bool aligned = detail::rows_are_aligned(shape, {q, k, v, o, d_o, d_q, d_k, d_v});
      const bool done = on_tensor_cores<T>(shape, [&]<int Width>() {
        return launch_tensor_tiles<detail::tiles_of_queries<Width>, 2>(
                   shape, shape.heads, shape.queries, detail::differentiate_queries_bf16<Width>, shape, q, k, v,
                   lengths, o, log_sums, d_o, d_q, aligned) &&
               launch_tensor_tiles<detail::tiles_of_keys<Width>, 2>(shape, shape.key_heads, shape.keys,
                                                                    detail::differentiate_keys_bf16<Width>, shape, q, k,
                                                                    v, lengths, o, log_sums, d_o, d_k, d_v, aligned);
      });
      if (done) return;
      const int parts = detail::tile_worker<T>::parts_of(shape.width);
      launch_tiles(of_queries * parts, differentiate_queries<T>, shape, q, k, v, lengths, o, log_sums, d_o, d_q);
      launch_tiles(of_keys * parts, differentiate_keys<T>, shape, q, k, v, lengths, o, log_sums, d_o, d_k, d_v);
    });
  }

  /// A layer calls this at construction for each attention that it will run, with its largest number of samples.
  template <class T>
  GPIPE_COLD void prepare_attention(const attention_shape& shape) const {
    if (shape.width > detail::max_head_width)
      gpipe::detail::throw_error({"the width of an attention's head is ", shape.width},
                                 {"on a GPU choose at most ", detail::max_head_width});
  }

 private:
  // assumes: half precision is bf16
  // Calls call.operator()<Width>(), which returns whether it has launched, if attention of this type and width may run
  // on tensor cores here; otherwise returns false.
  template <class T, class Call>
  bool on_tensor_cores(const attention_shape& shape, Call&& call) const {
    if constexpr (std::is_same_v<T, bf16>) {
      if (tensor_memory_ < 0) tensor_memory_ = detail::tensor_memory(gpu());
      if (tensor_memory_ == 0 || shape.width > detail::max_head_width) return false;
      if (shape.width <= 64) return call.template operator()<64>();
      if (shape.width <= 128) return call.template operator()<128>();
      return call.template operator()<256>();
    }
    return false;
  }
  template <class Tiles, int Lefts, class... Terms>
  bool launch_tensor_tiles(const attention_shape& shape, int heads, int rows, void (*kernel)(Terms...),
                           std::type_identity_t<Terms>... arguments) const {
    constexpr int bytes = Tiles::bytes(Lefts), static_bytes = 1 << 10;  // an upper bound of static shared memory
    if (bytes + static_bytes > tensor_memory_) return false;
    const auto count = detail::attention_work::count(shape.samples, heads, rows, Tiles::block_rows) * Tiles::parts;
    cuda::launch_with_shared<Terms...>(stream_, detail::blocks(count), dim3(detail::tensor_threads), bytes, kernel,
                                       arguments...);
    return true;
  }

  mutable int tensor_memory_ = -1;  // bytes per block; queried at the first attention
};

}  // namespace gpipe::cuda
