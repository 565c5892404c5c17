#pragma once

// Runs an example on the CPU, or on the machine's GPUs.

#include <type_traits>

#include <gpipe/core/error.hpp>
#include <gpipe/device/host/host.hpp>
#include <gpipe/transport/contract/process_group.hpp>
#if GPIPE_WITH_CUDA
#include <gpipe/cuda/cuda.hpp>
#if GPIPE_WITH_NCCL
#include <gpipe/cuda/nccl/job.hpp>
#endif
#endif

namespace example {

// change: a device
enum class processor { host, cuda };

/// Calls `run(device, job)`, where `decltype(device)::type` is the device that a trainer has. In a job of processes
/// with GPUs `run` gets a job that reaches their memory.
template <class Run>
int run_on(processor where, gpipe::process_group* job, const Run& run) {
  if (where == processor::host) return run(std::type_identity<gpipe::host_device>(), job);
#if GPIPE_WITH_CUDA
  if (job == nullptr) return run(std::type_identity<gpipe::cuda_device>(), job);
#if GPIPE_WITH_NCCL
  gpipe::nccl::job gpus(*job);
  return run(std::type_identity<gpipe::cuda_device>(), static_cast<gpipe::process_group*>(&gpus));
#else
  throw gpipe::error("the program was built without NCCL, and MPI does not reach GPU memory",
                     "install libnccl-dev and configure again, or choose --transport threads");
#endif
#else
  throw gpipe::error("the program was built without CUDA",
                     "install the CUDA toolkit, and configure again with GPIPE_CUDA=ON");
#endif
}

}  // namespace example
