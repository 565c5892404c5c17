#pragma once

#include <algorithm>
#include <bit>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include <gpipe/core/tensors/dtype.hpp>
#include <gpipe/cuda/stream/stream.hpp>
#include <gpipe/layer/contract/panels.hpp>

namespace gpipe::cuda {

/// cuBLASLt's name of an element type.
template <class T>
inline constexpr cudaDataType library_type = CUDA_R_32F;
template <>
inline constexpr cudaDataType library_type<double> = CUDA_R_64F;
// assumes: half precision is bf16
template <>
inline constexpr cudaDataType library_type<bf16> = CUDA_R_16BF;

/// The work that is fused into a product.
enum class epilogue {
  none,
  bias,           ///< a row, of D's type, is added to every row of D
  bias_gradient,  ///< the columns of a transposed A are summed, in D's type: written, not added
  gelu_and_bias,  ///< H = the product + row is written in addition to D = GELU(H), by tanh
  gelu_gradient,  ///< each element is multiplied by the derivative of GELU at H
};

/// D[m x n] = op(A)[m x k] op(B)[k x n], row-major, D without gaps. A transposed A is stored as k x m, a transposed B
/// as n x k. The rows are the extent that short micro-batches reduce: k of a transposed A, else m.
struct product {
  cudaDataType in = CUDA_R_32F, out = CUDA_R_32F;
  epilogue fused_step = epilogue::none;
  bool a_transposed = false, b_transposed = false;
  int n = 0, across = 0;  ///< `across`: m of a transposed A, else k
  int b_stride = 0;       ///< elements from row to row of the stored B
  int a_stride = 0;       ///< the same of the stored A; 0: its rows have no gaps
  int a_alignment = full_alignment, b_alignment = full_alignment, d_alignment = full_alignment;  ///< bytes
  int rows = 0;

  static constexpr int full_alignment = static_cast<int>(gpipe::detail::alignment);
  /// The largest power of two that divides an address, or an offset, up to the alignment of all buffers. A part of a
  /// buffer may have less.
  static int alignment_of(std::uintptr_t address) {
    address |= static_cast<std::uintptr_t>(full_alignment);
    return static_cast<int>(address & (~address + 1));
  }
  static int alignment_of(const void* address) { return alignment_of(reinterpret_cast<std::uintptr_t>(address)); }
  bool has_h() const { return fused_step == epilogue::gelu_and_bias || fused_step == epilogue::gelu_gradient; }
  int m() const { return a_transposed ? across : rows; }
  int k() const { return a_transposed ? rows : across; }

  // The products of a context's operations. `padded` is the number of columns of a packed B with its gap.
  static int padded(int n) { return static_cast<int>(packed_size(1, n)); }
  template <class T>
  static product by_packed(int rows, int n, int k) {
    return {.in = library_type<T>, .out = library_type<T>, .n = n, .across = k, .b_stride = padded(n), .rows = rows};
  }
  template <class T>
  static product by_weight(int rows, int n, int k, bool transposed) {
    return {.in = library_type<T>,
            .out = library_type<T>,
            .b_transposed = transposed,
            .n = n,
            .across = k,
            .b_stride = transposed ? k : n,
            .rows = rows};
  }
  template <class T>
  static product of_transposed(int m, int n, int rows) {
    return {.in = library_type<T>,
            .out = library_type<compute_type<T>>,
            .a_transposed = true,
            .n = n,
            .across = m,
            .b_stride = n,
            .rows = rows};
  }

  auto operator<=>(const product&) const = default;
};

/// cuBLASLt on one stream. The handle, the workspace and the algorithm of each product are made once. The algorithm
/// depends on the product alone, and each gives the same bits every time; float is not TF32 unless that is allowed, and
/// sums of bf16 are in float. A product of any number of rows runs the algorithm of the next power of two, regardless
/// of the other prepared products: its bits do not depend on the layers that share the stream.
class gemm {
 public:
  /// Bytes that cuBLASLt's fast kernels load at a time.
  static constexpr int vector_bytes = 16;
  /// Bytes after the workspace, for the other operations on the stream.
  static constexpr std::size_t scratch_bytes = std::size_t{32} << 20;
  /// Counters of blocks after the scratch: zeros before and after each operation.
  static constexpr int max_arrivals = 1 << 10;

  GPIPE_COLD explicit gemm(const stream& queue) : stream_(queue) {
    use(queue.gpu());
    check(cublasLtCreate(&handle_), "cublasLtCreate");
    cudaError_t given = cudaMalloc(&workspace_, workspace_bytes + scratch_bytes + arrival_bytes);
    if (given == cudaSuccess)  // the scratch, too: an atomic operation reads what it replaces
      given = cudaMemsetAsync(scratch<std::byte>(), 0, scratch_bytes + arrival_bytes, stream_.get());
    if (given == cudaSuccess) return;
    static_cast<void>(cudaFree(workspace_));
    static_cast<void>(cublasLtDestroy(handle_));
    check(given, "cudaMalloc and cudaMemsetAsync");
  }
  GPIPE_COLD ~gemm() {
    static_cast<void>(cudaSetDevice(stream_.gpu()));
    static_cast<void>(cudaFree(workspace_));
    static_cast<void>(cublasLtDestroy(handle_));
  }
  gemm(const gemm&) = delete;
  gemm& operator=(const gemm&) = delete;

  /// Lets factors in float be rounded to TF32, with a fraction of 10 bits. Call before the first product is prepared.
  void allow_tf32() { tf32_ = true; }

  template <class T>
  T* scratch() const {
    return reinterpret_cast<T*>(static_cast<std::byte*>(workspace_) + workspace_bytes);
  }

  unsigned* arrivals() const {
    return reinterpret_cast<unsigned*>(static_cast<std::byte*>(workspace_) + workspace_bytes + scratch_bytes);
  }

  /// The next power of two, if an int has one.
  static int enough(int rows) {
    constexpr int largest = 1 << 30;
    return rows > largest ? (std::numeric_limits<int>::max)()
                          : static_cast<int>(std::bit_ceil(static_cast<unsigned>((std::max)(rows, 1))));
  }

  template <class T>
  static constexpr bool fits_scratch(int count) {
    return sizeof(T) * static_cast<std::size_t>(count) <= scratch_bytes;
  }

  /// Chooses the algorithm of a product whose rows are a power of two.
  GPIPE_COLD void choose(const product& p) {
    const auto position = position_of(p);
    if (position != chosen_.end() && position->key == p) return;
    cublasLtMatmulPreferenceOpaque_t preference{};
    check(cublasLtMatmulPreferenceInit(&preference), "cublasLtMatmulPreferenceInit");
    const auto prefer = [&preference](cublasLtMatmulPreferenceAttributes_t attribute, auto value) {
      check(cublasLtMatmulPreferenceSetAttribute(&preference, attribute, &value, sizeof value),
            "cublasLtMatmulPreferenceSetAttribute");
    };
    prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, std::uint64_t{workspace_bytes});
    // Parts of a sum are combined in the workspace and in a fixed order.
    prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
           static_cast<std::uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
    const auto bytes = [](int alignment) { return static_cast<std::uint32_t>(alignment); };
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, bytes(p.b_alignment));  // see `terms`
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, bytes(p.a_alignment));
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, bytes(p.d_alignment));
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, bytes(p.d_alignment));
    use(stream_.gpu());
    // The heuristic takes the alignment of the epilogue's row from its address (cublasLt.h, BIAS_POINTER), which is at
    // most the full one.
    std::byte* const aligned = static_cast<std::byte*>(workspace_) + product::full_alignment;
    terms descriptors(p, compute_type_of(p), aligned, aligned);
    cublasLtMatmulHeuristicResult_t best{};
    int found = 0;
    const cublasStatus_t status =
        cublasLtMatmulAlgoGetHeuristic(handle_, descriptors.operation(), descriptors.b(), descriptors.a(),
                                       descriptors.d(), descriptors.d(), &preference, 1, &best, &found);
    if (status != CUBLAS_STATUS_NOT_SUPPORTED) check(status, "cublasLtMatmulAlgoGetHeuristic");
    chosen_.insert(position, {p, best.algo, status == CUBLAS_STATUS_SUCCESS && found > 0});
  }

  /// Products whose algorithms were chosen.
  std::size_t chosen() const { return chosen_.size(); }

  /// Chooses algorithms for a product of up to `p.rows` rows.
  GPIPE_COLD void prepare(product p) {
    const int most = enough(p.rows);
    for (p.rows = 1; p.rows < most; p.rows = enough(p.rows + 1)) choose(p);
    choose(p);
  }

  /// Whether cuBLASLt has the product with its epilogue. Without an epilogue it must.
  bool offers(const product& p, const void* a, const void* b, const void* d) {
    return chosen_for(aligned(p, a, b, d)).offered;
  }

  /// D = op(A) op(B), or D += if accumulating. The epilogue reads or writes `bias`, which has full alignment, and the
  /// matrix `h`, which has D's type and extents.
  void run(const product& p, const void* a, const void* b, void* d, bool accumulate = false, void* bias = nullptr,
           void* h = nullptr) {
    const choice& chosen = chosen_for(aligned(p, a, b, d));
    if (!chosen.offered)
      detail::throw_error(
          {"cuBLASLt has no algorithm for the product of ", p.m(), " x ", p.k(), " by ", p.k(), " x ", p.n},
          {"choose other extents; multiples of 8 are best"});
    terms descriptors(p, compute_type_of(p), bias, h);
    const float alpha = 1, beta = accumulate ? 1 : 0;
    const double alpha_in_double = 1, beta_in_double = beta;
    const bool doubles = p.out == CUDA_R_64F;
    check(cublasLtMatmul(
              handle_, descriptors.operation(), doubles ? static_cast<const void*>(&alpha_in_double) : &alpha, b,
              descriptors.b(), a, descriptors.a(), doubles ? static_cast<const void*>(&beta_in_double) : &beta, d,
              descriptors.d(), d, descriptors.d(), &chosen.algorithm, workspace_, workspace_bytes, stream_.get()),
          "cublasLtMatmul");
  }

 private:
  static constexpr std::size_t workspace_bytes = std::size_t{32} << 20;  // NVIDIA's advice for Hopper
  static constexpr std::size_t arrival_bytes = max_arrivals * sizeof(unsigned);

  // The product in cuBLASLt's column-major order: a row-major matrix is its transpose there, so that D^T = op(B)^T
  // op(A)^T. Descriptions live on the stack.
  class terms {
   public:
    terms(const product& p, cublasComputeType_t precision, void* bias, void* h) {
      const auto m = static_cast<std::uint64_t>(p.m()), n = static_cast<std::uint64_t>(p.n),
                 k = static_cast<std::uint64_t>(p.k());
      check(cublasLtMatmulDescInit(&operation_, precision, p.out == CUDA_R_64F ? CUDA_R_64F : CUDA_R_32F),
            "cublasLtMatmulDescInit");
      set(CUBLASLT_MATMUL_DESC_TRANSA, p.b_transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
      set(CUBLASLT_MATMUL_DESC_TRANSB, p.a_transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
      if (p.fused_step != epilogue::none) set(CUBLASLT_MATMUL_DESC_EPILOGUE, library_epilogue(p.fused_step));
      if (p.fused_step != epilogue::none && p.fused_step != epilogue::gelu_gradient)
        set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
      if (p.has_h()) {
        set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, h);
        set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, std::int64_t{p.n});
      }
      const auto stride = static_cast<std::int64_t>(p.b_stride);
      layout(b_, p.in, p.b_transposed ? k : n, p.b_transposed ? n : k, stride);
      layout(a_, p.in, p.a_transposed ? m : k, p.a_transposed ? k : m, p.a_stride > 0 ? p.a_stride : p.across);
      layout(d_, p.out, n, m, p.n);
    }
    cublasLtMatmulDesc_t operation() { return &operation_; }
    cublasLtMatrixLayout_t a() { return &a_; }
    cublasLtMatrixLayout_t b() { return &b_; }
    cublasLtMatrixLayout_t d() { return &d_; }

   private:
    template <class T>
    void set(cublasLtMatmulDescAttributes_t attribute, T value) {
      check(cublasLtMatmulDescSetAttribute(&operation_, attribute, &value, sizeof value),
            "cublasLtMatmulDescSetAttribute");
    }
    static void layout(cublasLtMatrixLayoutOpaque_t& matrix, cudaDataType type, std::uint64_t rows,
                       std::uint64_t columns, std::int64_t stride) {
      check(cublasLtMatrixLayoutInit(&matrix, type, rows, columns, stride), "cublasLtMatrixLayoutInit");
    }

    static cublasLtEpilogue_t library_epilogue(epilogue step) {
      switch (step) {
        case epilogue::bias:
          return CUBLASLT_EPILOGUE_BIAS;
        case epilogue::bias_gradient:
          return CUBLASLT_EPILOGUE_BGRADB;
        case epilogue::gelu_and_bias:
          return CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
        case epilogue::gelu_gradient:
          return CUBLASLT_EPILOGUE_DGELU;
        default:
          return CUBLASLT_EPILOGUE_DEFAULT;
      }
    }

    cublasLtMatmulDescOpaque_t operation_{};
    cublasLtMatrixLayoutOpaque_t a_{}, b_{}, d_{};
  };

  cublasComputeType_t compute_type_of(const product& p) const {
    if (p.out == CUDA_R_64F) return CUBLAS_COMPUTE_64F;
    return tf32_ && p.in == CUDA_R_32F ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
  }

  static product aligned(product p, const void* a, const void* b, const void* d) {
    p.a_alignment = product::alignment_of(a);
    p.b_alignment = product::alignment_of(b);
    p.d_alignment = product::alignment_of(d);
    return p;
  }

  struct choice {
    product key;
    cublasLtMatmulAlgo_t algorithm{};
    bool offered = false;
  };

  std::vector<choice>::iterator position_of(const product& p) {
    return std::lower_bound(chosen_.begin(), chosen_.end(), p,
                            [](const choice& c, const product& wanted) { return c.key < wanted; });
  }
  const choice& chosen_for(product p) {
    p.rows = enough(p.rows);
    auto position = position_of(p);
    if (position == chosen_.end() || position->key != p) {  // not prepared
      choose(p);
      position = position_of(p);
    }
    return *position;
  }

  const stream& stream_;
  cublasLtHandle_t handle_ = nullptr;
  void* workspace_ = nullptr;
  std::vector<choice> chosen_;  // sorted
  bool tf32_ = false;
};

}  // namespace gpipe::cuda
