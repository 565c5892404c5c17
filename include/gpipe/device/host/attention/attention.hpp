#pragma once

#include <cstdint>

#include <gpipe/core/config.hpp>
#include <gpipe/core/tensors/dtype.hpp>
#include <gpipe/device/host/attention/attention_backward.hpp>
#include <gpipe/device/host/attention/attention_forward.hpp>
#include <gpipe/device/host/attention/products.hpp>
#include <gpipe/layer/contract/attention_shape.hpp>

namespace gpipe::host {

/// Attention in blocks, with the products of `Products`. The scratch is on the stack and does not grow with the
/// number of queries or keys.
template <class Products>
struct block_attention {
  template <class T>
  static void prepare(const attention_shape& shape) {
    attention_forward<T, Products>::prepare(shape);
    attention_backward<T, Products>::prepare(shape);
  }
  template <class T>
  static void forward(const attention_shape& shape, const T* q, const T* k, const T* v, const std::int32_t* lengths,
                      T* o, compute_type<T>* log_sums) {
    attention_forward<T, Products>::run(shape, q, k, v, lengths, o, log_sums);
  }
  template <class T>
  static void backward(const attention_shape& shape, const T* q, const T* k, const T* v, const std::int32_t* lengths,
                       const T* o, const compute_type<T>* log_sums, const T* d_o, T* d_q, T* d_k, T* d_v) {
    attention_backward<T, Products>::run(shape, lengths, {q, k, v, o, log_sums, d_o, d_q, d_k, d_v});
  }
};

/// The host's attention: its products are libxsmm's if the build has it, else gpipe's own.
#if GPIPE_WITH_LIBXSMM
using attention = block_attention<libxsmm_products>;
#else
using attention = block_attention<portable_products>;
#endif

}  // namespace gpipe::host
