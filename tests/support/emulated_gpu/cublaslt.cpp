#include <cublasLt.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <utility>

#include "emulator.hpp"

// The emulated cuBLASLt: products in double, each result rounded once. It refuses what NVIDIA's documentation does:
//
//   docs.nvidia.com/cuda/cublas, cublasLtMatmul()     compute type  scale   A and B   C and D   bias
//                                                     32F           32F     16BF      16BF      16BF
//                                                     32F           32F     16BF      32F       32F
//                                                     32F           32F     32F       32F       32F
//                                                     32F_FAST_TF32 32F     32F       32F       32F
//                                                     64F           64F     64F       64F       64F
//     C and D have one type and one extent; the workspace is aligned to 256 bytes
//   cublasLt.h, CUBLASLT_MATRIX_LAYOUT_LD             at least the rows, of a matrix in columns
//   cublasLt.h, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_*  the heuristic may choose an algorithm that needs it; 256 by
//   default cublasLt.h, CUBLASLT_MATMUL_DESC_BIAS_POINTER     the heuristic takes the bias's alignment from its
//   address; the bias
//                                                     has D's type
//   cublasLt.h, CUBLASLT_EPILOGUE_BGRADB              sums B over k, for each column of D
//   cublasLt.h, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_*   GELU's matrix has D's type; its leading dimension is a multiple
//   of
//                                                     8, and at least the rows; the heuristic takes its alignment, too
//
// An epilogue is offered to narrow products alone, so that the substitute for an epilogue runs too; but to all where a
// program counts.

using namespace emulated;

namespace {

struct layout {
  cudaDataType type;
  std::uint64_t rows, columns;
  std::int64_t stride;

  std::size_t size() const { return type == CUDA_R_64F ? 8 : type == CUDA_R_32F ? 4 : 2; }
  std::size_t offset(std::uint64_t row, std::uint64_t column) const {
    return size() * (column * static_cast<std::size_t>(stride) + row);
  }
  std::size_t bytes() const { return rows == 0 || columns == 0 ? 0 : offset(rows - 1, columns - 1) + size(); }
  double get(const u8* at, std::uint64_t row, std::uint64_t column) const {
    at += offset(row, column);
    if (type == CUDA_R_64F) return from_parameter<double>(at);
    if (type == CUDA_R_32F) return from_parameter<float>(at);
    return of_bf16(from_parameter<u16>(at));
  }
  void set(u8* at, std::uint64_t row, std::uint64_t column, double value) const {
    const auto f = static_cast<float>(value);
    const u16 b = bf16_of(f);
    const void* const from = type == CUDA_R_64F ? static_cast<const void*>(&value) : type == CUDA_R_32F ? &f : nullptr;
    std::memcpy(at + offset(row, column), from == nullptr ? &b : from, size());
  }
};
struct product {
  cublasComputeType_t compute;
  cudaDataType scale;
  cublasOperation_t a = CUBLAS_OP_N, b = CUBLAS_OP_N;
  cublasLtEpilogue_t then = CUBLASLT_EPILOGUE_DEFAULT;
  void *bias = nullptr, *aux = nullptr;
  std::int64_t aux_stride = 0;

  bool has_bias() const {
    return then == CUBLASLT_EPILOGUE_BIAS || then == CUBLASLT_EPILOGUE_BGRADB ||
           then == CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
  }
  bool has_aux() const { return then == CUBLASLT_EPILOGUE_GELU_AUX_BIAS || then == CUBLASLT_EPILOGUE_DGELU; }
};
using alignments = std::array<std::uint32_t, 6>;  // of A, B, C, D, the bias and the epilogue's matrix, in bytes
struct algorithm {
  std::uint64_t magic;
  alignments needs;
};
constexpr std::uint64_t magic = 0x656d756c61746564;
static_assert(sizeof(layout) <= sizeof(cublasLtMatrixLayoutOpaque_t) &&
              sizeof(product) <= sizeof(cublasLtMatmulDescOpaque_t) &&
              sizeof(alignments) <= sizeof(cublasLtMatmulPreferenceOpaque_t) &&
              sizeof(algorithm) <= sizeof(cublasLtMatmulAlgo_t));
template <class As, class Opaque>
As& as(Opaque* given) {
  return *reinterpret_cast<As*>(given);
}

cublasStatus_t refuse(cublasStatus_t with, const char* why) {
  report("cuBLASLt", "cublasLtMatmul", 0, why);
  return with;
}

cublasStatus_t check(const product& p, const layout& a, const layout& b, const layout& c, const layout& d) {
  const bool at = p.a != CUBLAS_OP_N, bt = p.b != CUBLAS_OP_N;
  if ((at ? a.columns : a.rows) != d.rows || (bt ? b.rows : b.columns) != d.columns ||
      (at ? a.rows : a.columns) != (bt ? b.columns : b.rows))
    return refuse(CUBLAS_STATUS_INVALID_VALUE, "extents do not fit");
  for (const layout* l : {&a, &b, &c, &d})
    if (l->stride < static_cast<std::int64_t>(l->rows))
      return refuse(CUBLAS_STATUS_INVALID_VALUE, "a leading dimension is smaller than the rows");
  if (c.rows != d.rows || c.columns != d.columns || c.type != d.type)
    return refuse(CUBLAS_STATUS_INVALID_VALUE, "C and D differ");
  if (p.has_aux() && (p.aux_stride % 8 != 0 || p.aux_stride < static_cast<std::int64_t>(d.rows)))
    return refuse(CUBLAS_STATUS_INVALID_VALUE, "the leading dimension of GELU's matrix is not 8 n, or too small");
  const bool doubles = p.compute == CUBLAS_COMPUTE_64F && p.scale == CUDA_R_64F && a.type == CUDA_R_64F;
  const bool floats = p.scale == CUDA_R_32F && (p.compute == CUBLAS_COMPUTE_32F ||
                                                (p.compute == CUBLAS_COMPUTE_32F_FAST_TF32 && a.type == CUDA_R_32F));
  if (a.type != b.type ||
      !((doubles && d.type == CUDA_R_64F) || (floats && a.type == CUDA_R_32F && d.type == CUDA_R_32F) ||
        (floats && a.type == CUDA_R_16BF && (d.type == CUDA_R_16BF || d.type == CUDA_R_32F))))
    return refuse(CUBLAS_STATUS_NOT_SUPPORTED, "types that are not in the table");
  return CUBLAS_STATUS_SUCCESS;
}

/// An algorithm may overwrite all of its workspace: here both ends.
void scribble(u64 workspace, std::size_t bytes) {
  const std::size_t part = std::min<std::size_t>(bytes, 4096);
  for (const u64 at : {workspace, workspace + bytes - part})
    if (u8* const p = touch(at, part, true, "cublasLtMatmul's workspace")) std::memset(p, 0xff, part);
}

double scale_of(const product& p, const void* at) {
  return p.scale == CUDA_R_64F ? *static_cast<const double*>(at) : *static_cast<const float*>(at);
}

/// A float rounded to TF32, which has 10 bits behind the point.
double in_tf32(double x) {
  int exponent = 0;
  const double fraction = std::frexp(x, &exponent);
  return std::ldexp(std::nearbyint(std::ldexp(fraction, 11)), exponent - 11);
}

/// GELU's approximation by tanh, and its derivative.
double gelu(double x) { return x / 2 * (1 + std::tanh(0.7978845608028654 * (x + 0.044715 * x * x * x))); }
double gelu_slope(double x) {
  const double t = std::tanh(0.7978845608028654 * (x + 0.044715 * x * x * x));
  return (1 + t) / 2 + x / 2 * (1 - t * t) * 0.7978845608028654 * (1 + 3 * 0.044715 * x * x);
}

bool has_epilogue(const product& p, const layout& d) {
  return p.then == CUBLASLT_EPILOGUE_DEFAULT || d.rows <= 64 || counting();
}

void multiply(const product& p, double one, double add, const layout& a, u64 a_at, const layout& b, u64 b_at,
              const layout& d, u64 d_at) {
  const char* const who = "cublasLtMatmul";
  if (d.rows == 0 || d.columns == 0) return;
  const u8 *x = touch(a_at, a.bytes(), false, who), *y = touch(b_at, b.bytes(), false, who);
  if (add != 0) touch(d_at, d.bytes(), false, who);
  u8* const z = touch(d_at, d.bytes(), true, who);
  if (x == nullptr || y == nullptr || z == nullptr) return;
  const bool at = p.a != CUBLAS_OP_N, bt = p.b != CUBLAS_OP_N;
  const std::uint64_t m = d.rows, n = d.columns, k = at ? a.rows : a.columns;
  if (count_product(m, n, k, a.size())) {  // a program that counts gets no products
    if (p.then == CUBLASLT_EPILOGUE_BGRADB) touch(reinterpret_cast<u64>(p.bias), n * d.size(), true, who);
    if (p.then == CUBLASLT_EPILOGUE_GELU_AUX_BIAS)
      touch(reinterpret_cast<u64>(p.aux), layout{d.type, m, n, p.aux_stride}.bytes(), true, who);
    return;
  }
  std::vector<double> left(m * k), right(n * k);
  const auto factor = [&p](double x) { return p.compute == CUBLAS_COMPUTE_32F_FAST_TF32 ? in_tf32(x) : x; };
  for (std::uint64_t i = 0; i < m; ++i)
    for (std::uint64_t l = 0; l < k; ++l) left[i * k + l] = factor(a.get(x, at ? l : i, at ? i : l));
  for (std::uint64_t j = 0; j < n; ++j)
    for (std::uint64_t l = 0; l < k; ++l) right[j * k + l] = factor(b.get(y, bt ? j : l, bt ? l : j));
  const layout row{d.type, m, 1, static_cast<std::int64_t>(m)}, column{d.type, n, 1, static_cast<std::int64_t>(n)};
  const u8* bias = nullptr;
  if (p.has_bias() && p.then != CUBLASLT_EPILOGUE_BGRADB &&
      (bias = touch(reinterpret_cast<u64>(p.bias), row.bytes(), false, who)) == nullptr)
    return;
  const layout h{d.type, m, n, p.aux_stride};
  u8* const kept =
      p.has_aux() ? touch(reinterpret_cast<u64>(p.aux), h.bytes(), p.then != CUBLASLT_EPILOGUE_DGELU, who) : nullptr;
  if (p.has_aux() && kept == nullptr) return;
  for (std::uint64_t j = 0; j < n; ++j)
    for (std::uint64_t i = 0; i < m; ++i) {
      double sum = 0;
      for (std::uint64_t l = 0; l < k; ++l) sum += left[i * k + l] * right[j * k + l];
      sum *= one;
      if (add != 0) sum += add * d.get(z, i, j);
      if (bias != nullptr) sum += row.get(bias, i, 0);
      if (p.then == CUBLASLT_EPILOGUE_GELU_AUX_BIAS) h.set(kept, i, j, sum), sum = gelu(sum);
      if (p.then == CUBLASLT_EPILOGUE_DGELU) sum *= gelu_slope(h.get(kept, i, j));
      d.set(z, i, j, sum);
    }
  if (p.then != CUBLASLT_EPILOGUE_BGRADB) return;
  u8* const sums = touch(reinterpret_cast<u64>(p.bias), column.bytes(), true, who);
  for (std::uint64_t j = 0; sums != nullptr && j < n; ++j) {
    double sum = 0;
    for (std::uint64_t l = 0; l < k; ++l) sum += right[j * k + l];
    column.set(sums, j, 0, sum);
  }
}

}  // namespace

extern "C" {

const char* cublasLtGetStatusName(cublasStatus_t s) {
  return s == CUBLAS_STATUS_INVALID_VALUE   ? "CUBLAS_STATUS_INVALID_VALUE"
         : s == CUBLAS_STATUS_NOT_SUPPORTED ? "CUBLAS_STATUS_NOT_SUPPORTED"
                                            : "CUBLAS_STATUS";
}
const char* cublasLtGetStatusString(cublasStatus_t) { return "a status of the emulated cuBLASLt"; }
cublasStatus_t cublasLtCreate(cublasLtHandle_t* made) {
  return *made = reinterpret_cast<cublasLtHandle_t>(new char), CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t h) { return delete reinterpret_cast<char*>(h), CUBLAS_STATUS_SUCCESS; }
cublasStatus_t cublasLtMatrixLayoutInit_internal(cublasLtMatrixLayout_t made, std::size_t, cudaDataType type,
                                                 std::uint64_t rows, std::uint64_t columns, std::int64_t stride) {
  return as<layout>(made) = {type, rows, columns, stride}, CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescInit_internal(cublasLtMatmulDesc_t made, std::size_t, cublasComputeType_t compute,
                                               cudaDataType scale) {
  return as<product>(made) = {.compute = compute, .scale = scale}, CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t of, cublasLtMatmulDescAttributes_t what,
                                              const void* value, std::size_t bytes) {
  auto& p = as<product>(of);
  const auto set = [&](auto& into) {
    if (bytes != sizeof into) return CUBLAS_STATUS_INVALID_VALUE;
    return std::memcpy(&into, value, bytes), CUBLAS_STATUS_SUCCESS;
  };
  if (what == CUBLASLT_MATMUL_DESC_TRANSA) return set(p.a);
  if (what == CUBLASLT_MATMUL_DESC_TRANSB) return set(p.b);
  if (what == CUBLASLT_MATMUL_DESC_EPILOGUE) return set(p.then);
  if (what == CUBLASLT_MATMUL_DESC_BIAS_POINTER) return set(p.bias);
  if (what == CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER) return set(p.aux);
  if (what == CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD) return set(p.aux_stride);
  return refuse(CUBLAS_STATUS_NOT_SUPPORTED, "an attribute that the emulator lacks");
}
cublasStatus_t cublasLtMatmulPreferenceInit_internal(cublasLtMatmulPreference_t made, std::size_t) {
  return as<alignments>(made) = {256, 256, 256, 256, 256, 256}, CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t of,
                                                    cublasLtMatmulPreferenceAttributes_t what, const void* value,
                                                    std::size_t bytes) {
  static_assert(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES + 3);
  if (what < CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES || what > CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES)
    return CUBLAS_STATUS_SUCCESS;
  auto& alignment = as<alignments>(of)[what - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES];
  if (bytes != sizeof alignment) return CUBLAS_STATUS_INVALID_VALUE;
  return std::memcpy(&alignment, value, bytes), CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t how, cublasLtMatrixLayout_t a,
                                              cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c,
                                              cublasLtMatrixLayout_t d, cublasLtMatmulPreference_t wish, int wanted,
                                              cublasLtMatmulHeuristicResult_t* result, int* count) {
  *count = 0;
  const auto& p = as<product>(how);
  const cublasStatus_t status = check(p, as<layout>(a), as<layout>(b), as<layout>(c), as<layout>(d));
  if (status != CUBLAS_STATUS_SUCCESS) return status;
  if (wanted < 1) return CUBLAS_STATUS_INVALID_VALUE;
  if (!has_epilogue(p, as<layout>(d))) return CUBLAS_STATUS_NOT_SUPPORTED;
  algorithm chosen{magic, as<alignments>(wish)};
  for (const auto& [i, at] : {std::pair{4, p.bias}, {5, p.aux}}) {
    const u64 address = reinterpret_cast<u64>(at) | 256;
    chosen.needs[static_cast<std::size_t>(i)] = static_cast<std::uint32_t>(address & (~address + 1));
  }
  *result = {};
  as<algorithm>(&result->algo) = chosen;
  return *count = 1, CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t how, const void* one, const void* a,
                              cublasLtMatrixLayout_t la, const void* b, cublasLtMatrixLayout_t lb, const void* add,
                              const void* c, cublasLtMatrixLayout_t lc, void* d, cublasLtMatrixLayout_t ld,
                              const cublasLtMatmulAlgo_t* by, void* workspace, std::size_t workspace_bytes,
                              cudaStream_t on) {
  const std::lock_guard held(one_at_a_time);
  const product p = as<product>(how);
  const layout of_a = as<layout>(la), of_b = as<layout>(lb), of_d = as<layout>(ld);
  const cublasStatus_t status = check(p, of_a, of_b, as<layout>(lc), of_d);
  if (status != CUBLAS_STATUS_SUCCESS) return status;
  if (!has_epilogue(p, of_d)) return refuse(CUBLAS_STATUS_NOT_SUPPORTED, "an epilogue without an algorithm");
  if (c != d) return refuse(CUBLAS_STATUS_NOT_SUPPORTED, "the emulator lacks a C that is not D");
  const auto& chosen = as<const algorithm>(by);
  if (chosen.magic != magic) return refuse(CUBLAS_STATUS_INVALID_VALUE, "an algorithm that no heuristic gave");
  const auto place = [](const void* at) { return reinterpret_cast<u64>(at); };
  if (workspace_bytes > 0 && (place(workspace) % 256 != 0 || !on_device(place(workspace))))
    return refuse(CUBLAS_STATUS_INVALID_VALUE, "a workspace without an alignment to 256 bytes");
  if (scale_of(p, add) != 0 && p.has_aux())
    return refuse(CUBLAS_STATUS_NOT_SUPPORTED, "the emulator lacks GELU of a product that is added");
  const void* const operands[] = {a, b, c, d, p.has_bias() ? p.bias : nullptr, p.has_aux() ? p.aux : nullptr};
  for (std::size_t i = 0; i < chosen.needs.size(); ++i)
    if (place(operands[i]) % chosen.needs[i] != 0)
      return refuse(CUBLAS_STATUS_INVALID_VALUE, "an operand is not aligned as the heuristic was promised");
  const cudaError_t queued = enqueue(on, [=, x = scale_of(p, one), y = scale_of(p, add), at_a = place(a),
                                          at_b = place(b), at_d = place(d), spare = place(workspace)] {
    if (workspace_bytes > 0) scribble(spare, workspace_bytes);
    multiply(p, x, y, of_a, at_a, of_b, at_b, of_d, at_d);
    return true;
  });
  return queued == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}

}  // extern "C"
