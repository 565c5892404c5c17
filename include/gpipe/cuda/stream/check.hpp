#pragma once

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <gpipe/core/error.hpp>

namespace gpipe::cuda {

/// Resets CUDA's failure code after a failure was thrown or ignored. CUDA keeps the code until it is read, and Thrust
/// would report it at its next call, which is not the call that failed.
inline void forget_failure() noexcept { static_cast<void>(cudaGetLastError()); }

/// For calls that may fail, as in a destructor.
inline void ignore(cudaError_t found) noexcept {
  if (found != cudaSuccess) forget_failure();
}

namespace detail {

using gpipe::detail::throw_error;

[[noreturn]] GPIPE_COLD inline void throw_call_error(cudaError_t found, const char* call) {
  forget_failure();
  const bool full = found == cudaErrorMemoryAllocation;
  const bool absent = found == cudaErrorNoDevice || found == cudaErrorInsufficientDriver;
  throw_error(
      {call, ": ", cudaGetErrorName(found), ", ", cudaGetErrorString(found)},
      {full     ? "use more stages or GPUs, smaller micro-batches or recompute"
       : absent ? "check that `nvidia-smi` lists a GPU and a driver that is new enough for this build's CUDA"
                : "run compute-sanitizer to find the kernel; after most such errors a process cannot use the GPU "
                  "any more"});
}
[[noreturn]] GPIPE_COLD inline void throw_call_error(cublasStatus_t found, const char* call) {
  forget_failure();
  throw_error({call, ": ", cublasLtGetStatusName(found), ", ", cublasLtGetStatusString(found)},
              {"set CUBLASLT_LOG_LEVEL=1 to see the reason"});
}

}  // namespace detail

/// Throws `error` with the call's name and CUDA's message, unless the call succeeded. Errors of kernels are reported by
/// a later call: then the error names that call. The caller adds layer and stage.
inline void check(cudaError_t found, const char* call) {
  if (found != cudaSuccess) detail::throw_call_error(found, call);
}
inline void check(cublasStatus_t found, const char* call) {
  if (found != CUBLAS_STATUS_SUCCESS) detail::throw_call_error(found, call);
}

}  // namespace gpipe::cuda
