#pragma once

#include <nccl.h>

#include <gpipe/cuda/stream/check.hpp>

namespace gpipe::nccl {

/// Throws `error` if a call of NCCL has failed; a call in progress has not.
inline void check(ncclResult_t found, const char* call) {
  if (found == ncclSuccess || found == ncclInProgress) return;
  cuda::forget_failure();
  gpipe::detail::throw_error({call, ": ", ncclGetErrorString(found), ", ", ncclGetLastError(nullptr)},
                             {"set NCCL_DEBUG=WARN for details"});
}

}  // namespace gpipe::nccl
