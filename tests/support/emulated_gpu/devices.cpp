#include <algorithm>
#include <cstdio>
#include <cstring>

#include "emulator.hpp"

// GPUs, their errors and their memory. Each has 8 GiB, and can be let into the memory of every other.

namespace emulated {

namespace {

thread_local cudaError_t last_error = cudaSuccess;
constexpr std::size_t memory_bytes = std::size_t{8} << 30;
u32 enabled[max_gpus];  // a bit for each other GPU

}  // namespace

u32 reachable(int gpu) { return enabled[gpu] | 1u << gpu; }

cudaError_t returned(cudaError_t found) {
  if (found != cudaSuccess) last_error = found;
  return found;
}

}  // namespace emulated

using namespace emulated;

extern "C" {

cudaError_t cudaGetLastError() {
  const cudaError_t found = cudaPeekAtLastError();
  last_error = cudaSuccess;
  return found;
}
cudaError_t cudaPeekAtLastError() { return sticky != cudaSuccess ? sticky : last_error; }
const char* cudaGetErrorName(cudaError_t e) {
  switch (e) {
    case cudaSuccess:
      return "cudaSuccess";
    case cudaErrorInvalidValue:
      return "cudaErrorInvalidValue";
    case cudaErrorIllegalAddress:
      return "cudaErrorIllegalAddress";
    case cudaErrorMemoryAllocation:
      return "cudaErrorMemoryAllocation";
    case cudaErrorInvalidDeviceFunction:
      return "cudaErrorInvalidDeviceFunction";
    default:
      return "cudaError";
  }
}
const char* cudaGetErrorString(cudaError_t e) {
  static thread_local char text[64];
  std::snprintf(text, sizeof text, "error %d of the emulated GPU", static_cast<int>(e));
  return text;
}

cudaError_t cudaGetDeviceCount(int* n) {
  *n = gpu_count();
  return *n > 0 ? cudaSuccess : returned(cudaErrorNoDevice);
}
cudaError_t cudaGetDevice(int* gpu) { return *gpu = gpu_in_use, cudaSuccess; }
cudaError_t cudaSetDevice(int gpu) {
  if (gpu < 0 || gpu >= gpu_count()) return returned(cudaErrorInvalidDevice);
  return gpu_in_use = gpu, cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int* v) { return *v = CUDART_VERSION, cudaSuccess; }
cudaError_t cudaRuntimeGetVersion(int* v) { return *v = CUDART_VERSION, cudaSuccess; }
cudaError_t cudaDeviceGetAttribute(int* v, cudaDeviceAttr what, int) {
  switch (what) {
    case cudaDevAttrMaxThreadsPerBlock:
      *v = 1024;
      break;
    case cudaDevAttrMultiProcessorCount:
      *v = 108;
      break;
    case cudaDevAttrComputeCapabilityMajor:
      *v = architecture() / 10;
      break;
    case cudaDevAttrComputeCapabilityMinor:
      *v = architecture() % 10;
      break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      *v = shared_of_block();
      break;
    case cudaDevAttrWarpSize:
      *v = 32;
      break;
    case cudaDevAttrMaxSharedMemoryPerBlock:
      *v = 49152;
      break;
    case cudaDevAttrMaxGridDimX:
      *v = 0x7fffffff;
      break;
    default:
      *v = 0;
  }
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* p, int gpu) {
  std::memset(p, 0, sizeof *p);
  std::snprintf(p->name, sizeof p->name, "emulated GPU %d", gpu);
  p->uuid.bytes[0] = static_cast<char>(gpu + 1);
  p->major = architecture() / 10, p->minor = architecture() % 10, p->multiProcessorCount = 108;
  p->warpSize = 32, p->maxThreadsPerBlock = 1024, p->totalGlobalMem = memory_bytes;
  return cudaSuccess;
}
cudaError_t cudaMemGetInfo(std::size_t* left, std::size_t* whole) {
  const std::lock_guard held(one_at_a_time);
  *whole = memory_bytes, *left = memory_bytes - std::min(memory_bytes, bytes_in_use(gpu_in_use));
  return cudaSuccess;
}
cudaError_t cudaDeviceCanAccessPeer(int* can, int a, int b) { return *can = a != b, cudaSuccess; }
cudaError_t cudaDeviceEnablePeerAccess(int to, unsigned) {
  const std::lock_guard held(one_at_a_time);
  u32& others = enabled[gpu_in_use];
  if (others >> to & 1) return returned(cudaErrorPeerAccessAlreadyEnabled);
  return others |= 1u << to, cudaSuccess;
}

cudaError_t cudaMalloc(void** at, std::size_t bytes) {
  const std::lock_guard held(one_at_a_time);
  if (bytes_in_use(gpu_in_use) + bytes > memory_bytes) return returned(cudaErrorMemoryAllocation);
  *at = bytes == 0 ? nullptr : reinterpret_cast<void*>(allocate(bytes, gpu_in_use));
  return cudaSuccess;
}
cudaError_t cudaFree(void* at) {
  if (at == nullptr) return cudaSuccess;
  const cudaError_t before = cudaDeviceSynchronize();
  const std::lock_guard held(one_at_a_time);
  if (before != cudaSuccess) return before;
  return release(reinterpret_cast<u64>(at)) ? cudaSuccess : returned(cudaErrorInvalidValue);
}
cudaError_t cudaHostAlloc(void** at, std::size_t bytes, unsigned) {
  const std::lock_guard held(one_at_a_time);
  return *at = pin(bytes), cudaSuccess;
}
cudaError_t cudaFreeHost(void* at) {
  if (at == nullptr) return cudaSuccess;
  const std::lock_guard held(one_at_a_time);
  return unpin(at) ? cudaSuccess : returned(cudaErrorInvalidValue);
}

}  // extern "C"
