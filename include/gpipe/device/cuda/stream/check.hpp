#pragma once

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <gpipe/core/error.hpp>

namespace gpipe::cuda {

namespace detail {

using gpipe::detail::refuse;

[[noreturn]] GPIPE_ONCE inline void refuse_call(cudaError_t found, const char* call) {
  const bool full = found == cudaErrorMemoryAllocation;
  const bool absent = found == cudaErrorNoDevice || found == cudaErrorInsufficientDriver;
  refuse({call, ": ", cudaGetErrorName(found), ", ", cudaGetErrorString(found)},
         {full     ? "use more stages or GPUs, smaller micro-batches or recompute"
          : absent ? "see whether `nvidia-smi` lists a GPU, and a driver that is new enough for this build's CUDA"
                   : "compute-sanitizer tells which kernel it was; after most such errors a process cannot use the GPU "
                     "any longer"});
}
[[noreturn]] GPIPE_ONCE inline void refuse_call(cublasStatus_t found, const char* call) {
  refuse({call, ": ", cublasLtGetStatusName(found), ", ", cublasLtGetStatusString(found)},
         {"CUBLASLT_LOG_LEVEL=1 tells why"});
}

}  // namespace detail

/// Throws `error` with the call's name and what CUDA says, unless it went well. Errors of kernels come to light at a
/// later call: then it is that one which is named. Layer and stage are added by who runs the layer.
inline void check(cudaError_t found, const char* call) {
  if (found != cudaSuccess) detail::refuse_call(found, call);
}
inline void check(cublasStatus_t found, const char* call) {
  if (found != CUBLAS_STATUS_SUCCESS) detail::refuse_call(found, call);
}

}  // namespace gpipe::cuda
