#pragma once

#include <cmath>  // libxsmm 2 includes <math.h> as with GNU's extensions, which libstdc++ does not read later
#include <type_traits>

#include <libxsmm.h>

#include <gpipe/device/host/gemm/product_block.hpp>

// The calls of libxsmm 1.17 and of libxsmm 2, which differ. libxsmm is column-major: its (m, n, k, A, B) are our
// (columns, rows, k, B, A).

namespace gpipe::host {

/// Calls a function of libxsmm that computes one product of floats. Null if libxsmm has none for the shape.
class libxsmm_product {
 public:
  using number = float;
  libxsmm_product() = default;
  explicit libxsmm_product(const block_shape& shape);
  explicit operator bool() const { return function_ != nullptr; }
  bool operator==(const libxsmm_product&) const = default;

  /// `next` is the panel that follows, or null for a shape that is alone.
  void operator()(const float* a, const float* b, float* c, const float* next) const;

 private:
  static int prefetch_of(const block_shape& shape) {
    // In a block of few rows, prefetching the next panel takes longer than it saves.
    return shape.alone || shape.transposed || shape.rows < panel_width / 2 ? LIBXSMM_GEMM_PREFETCH_NONE
                                                                           : LIBXSMM_GEMM_PREFETCH_AL2;
  }

#if LIBXSMM_CONFIG_VERSION_MAJOR < 2
  libxsmm_smmfunction function_ = nullptr;
#else
  libxsmm_gemmfunction function_ = nullptr;
#endif
};

/// Calls a function of libxsmm that adds up several products of float or double, whose operands are at offsets in
/// bytes.
template <class T>
class libxsmm_batch {
 public:
  using number = T;
  libxsmm_batch() = default;
  explicit libxsmm_batch(const block_shape& shape);
  explicit operator bool() const { return function_ != nullptr; }

  void operator()(const T* a, const T* b, T* c, unsigned long long count, const unsigned long long* a_offsets,
                  const unsigned long long* b_offsets) const;

 private:
#if LIBXSMM_CONFIG_VERSION_MAJOR < 2
  std::conditional_t<std::is_same_v<T, float>, libxsmm_smmfunction_reducebatch_offs,
                     libxsmm_dmmfunction_reducebatch_offs>
      function_ = nullptr;
#else
  libxsmm_gemmfunction function_ = nullptr;
#endif
};

#if LIBXSMM_CONFIG_VERSION_MAJOR < 2

inline libxsmm_product::libxsmm_product(const block_shape& shape) {
  const int flags = shape.transposed ? LIBXSMM_GEMM_FLAG_TRANS_B : LIBXSMM_GEMM_FLAG_NONE;
  const int prefetch = prefetch_of(shape);
  const float alpha = 1, beta = shape.accumulate ? 1.0F : 0.0F;
  function_ = libxsmm_smmdispatch(shape.columns, shape.rows, shape.k, &shape.ldb, &shape.lda, &shape.ldc, &alpha, &beta,
                                  &flags, &prefetch);
}

inline void libxsmm_product::operator()(const float* a, const float* b, float* c, const float* next) const {
  function_(b, a, c, next, nullptr, nullptr);
}

template <class T>
libxsmm_batch<T>::libxsmm_batch(const block_shape& shape) {
  const int flags = shape.transposed ? LIBXSMM_GEMM_FLAG_TRANS_B : LIBXSMM_GEMM_FLAG_NONE;
  const int prefetch = LIBXSMM_GEMM_PREFETCH_NONE;
  const T alpha = 1, beta = shape.accumulate ? T(1) : T(0);
  if constexpr (std::is_same_v<T, float>)
    function_ = libxsmm_smmdispatch_reducebatch_offs(shape.columns, shape.rows, shape.k, &shape.ldb, &shape.lda,
                                                     &shape.ldc, &alpha, &beta, &flags, &prefetch);
  else
    function_ = libxsmm_dmmdispatch_reducebatch_offs(shape.columns, shape.rows, shape.k, &shape.ldb, &shape.lda,
                                                     &shape.ldc, &alpha, &beta, &flags, &prefetch);
}

template <class T>
void libxsmm_batch<T>::operator()(const T* a, const T* b, T* c, unsigned long long count,
                                  const unsigned long long* a_offsets, const unsigned long long* b_offsets) const {
  function_(b, a, c, &count, b_offsets, a_offsets);
}

#else

namespace detail {

template <class T>
libxsmm_gemm_shape libxsmm_extents(const block_shape& shape) {
  constexpr auto type = std::is_same_v<T, float> ? LIBXSMM_DATATYPE_F32 : LIBXSMM_DATATYPE_F64;
  return libxsmm_create_gemm_shape(shape.columns, shape.rows, shape.k, shape.ldb, shape.lda, shape.ldc, type, type,
                                   type, type);
}

inline libxsmm_bitfield libxsmm_flags(const block_shape& shape) {
  return (shape.transposed ? unsigned{LIBXSMM_GEMM_FLAG_TRANS_B} : 0U) |
         (shape.accumulate ? 0U : unsigned{LIBXSMM_GEMM_FLAG_BETA_0});
}

/// The arguments of a kernel, which writes only C.
template <class T>
libxsmm_gemm_param libxsmm_arguments(const T* a, const T* b, T* c) {
  libxsmm_gemm_param arguments;
  arguments.a.primary = const_cast<T*>(b);
  arguments.b.primary = const_cast<T*>(a);
  arguments.c.primary = c;
  return arguments;
}

}  // namespace detail

inline libxsmm_product::libxsmm_product(const block_shape& shape)
    : function_(libxsmm_dispatch_gemm(detail::libxsmm_extents<float>(shape), detail::libxsmm_flags(shape),
                                      static_cast<libxsmm_bitfield>(prefetch_of(shape)))) {}

inline void libxsmm_product::operator()(const float* a, const float* b, float* c, const float* next) const {
  libxsmm_gemm_param arguments = detail::libxsmm_arguments(a, b, c);
  arguments.a.senary = const_cast<float*>(next);  // prefetched
  function_(&arguments);
}

template <class T>
libxsmm_batch<T>::libxsmm_batch(const block_shape& shape)
    : function_(libxsmm_dispatch_brgemm(
          detail::libxsmm_extents<T>(shape), detail::libxsmm_flags(shape), LIBXSMM_GEMM_PREFETCH_NONE,
          libxsmm_create_gemm_batch_reduce_config(LIBXSMM_GEMM_BATCH_REDUCE_OFFSET, 0, 0, 0))) {}

template <class T>
void libxsmm_batch<T>::operator()(const T* a, const T* b, T* c, unsigned long long count,
                                  const unsigned long long* a_offsets, const unsigned long long* b_offsets) const {
  libxsmm_gemm_param arguments = detail::libxsmm_arguments(a, b, c);
  arguments.op.tertiary = &count;
  arguments.a.secondary = const_cast<unsigned long long*>(b_offsets);
  arguments.b.secondary = const_cast<unsigned long long*>(a_offsets);
  function_(&arguments);
}

#endif

}  // namespace gpipe::host
