#pragma once

#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>
#include <nccl.h>
#include <thread>
#include <utility>

#include <gpipe/cuda/stream/gpu.hpp>
#include <gpipe/cuda/stream/stream.hpp>
#include <gpipe/transport/contract/wait_limits.hpp>

namespace gpipe::nccl {

/// Throws `error` if a call of NCCL has failed; a call in progress has not.
inline void check(ncclResult_t found, const char* call) {
  if (found == ncclSuccess || found == ncclInProgress) return;
  cuda::forget_failure();
  gpipe::detail::throw_error({call, ": ", ncclGetErrorString(found), ", ", ncclGetLastError(nullptr)},
                             {"set NCCL_DEBUG=WARN for details"});
}

/// Identifies a GPU among all GPUs of all hosts.
struct device_identity {
  char bytes[16]{};

  GPIPE_COLD static device_identity of(int gpu) {
    cudaDeviceProp found{};
    cuda::check(cudaGetDeviceProperties(&found, gpu), "cudaGetDeviceProperties");
    device_identity identity;
    static_assert(sizeof identity.bytes == sizeof found.uuid.bytes);
    std::memcpy(identity.bytes, found.uuid.bytes, sizeof identity.bytes);
    return identity;
  }
  bool operator==(const device_identity& right) const { return std::memcmp(bytes, right.bytes, sizeof bytes) == 0; }
};

/// Rejects two ranks on one GPU, for which NCCL reports only an invalid usage.
GPIPE_COLD inline void require_apart(int first, const device_identity& first_gpu, int second,
                                     const device_identity& second_gpu) {
  if (first_gpu == second_gpu)
    gpipe::detail::throw_error(
        {"ranks ", (std::min)(first, second), " and ", (std::max)(first, second),
         " have the same GPU, and NCCL needs one GPU per rank"},
        {"start one process per GPU, or let one process have several stages: they share its GPU"});
}

/// Ranks that send each other the memory of their GPUs. Calls of NCCL do not block: this class polls until the
/// deadline. After the deadline or a failure it aborts all transfers of this rank, because the GPU must not wait for a
/// rank that has ended; after that every call throws.
class communicator {
 public:
  /// All ranks construct theirs at the same time, with the same id. `on_wait` is called while this waits for NCCL, and
  /// throws if another rank has failed.
  GPIPE_COLD communicator(const ncclUniqueId& id, int ranks, int rank, int gpu, std::chrono::nanoseconds deadline,
                          std::function<void()> on_wait = {})
      : deadline_(deadline), on_wait_(std::move(on_wait)) {
    cuda::use(gpu);
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    const ncclResult_t begun = ncclCommInitRankConfig(&handle_, ranks, id, rank, &config);
    complete("ncclCommInitRankConfig", [&] { return begun; });
  }
  GPIPE_COLD ~communicator() {
    if (handle_ == nullptr) return;
    try {
      complete("ncclCommFinalize", [&] { return ncclCommFinalize(handle_); });
      static_cast<void>(ncclCommDestroy(handle_));
    } catch (...) {  // aborted
    }
  }
  communicator(const communicator&) = delete;
  communicator& operator=(const communicator&) = delete;

  /// Enqueues the sends and receives of `call` as one group.
  template <class Call>
  void group(Call&& call) {
    require_usable();
    check(ncclGroupStart(), "ncclGroupStart");
    try {
      call();
    } catch (...) {
      static_cast<void>(ncclGroupEnd());
      abort();
      throw;
    }
    complete("ncclGroupEnd", [] { return ncclGroupEnd(); });
  }
  void send(const std::byte* data, std::size_t bytes, int peer, const cuda::stream& queue) {
    check(ncclSend(data, bytes, ncclInt8, peer, handle_, queue.get()), "ncclSend");
  }
  void receive(std::byte* data, std::size_t bytes, int peer, const cuda::stream& queue) {
    check(ncclRecv(data, bytes, ncclInt8, peer, handle_, queue.get()), "ncclRecv");
  }

  /// Throws if a transfer has failed.
  void check_error() {
    require_usable();
    check(state(), "ncclCommGetAsyncError");
  }

  GPIPE_COLD void abort() noexcept {
    if (handle_ != nullptr) static_cast<void>(ncclCommAbort(handle_));
    handle_ = nullptr;
  }

 private:
  void require_usable() const {
    if (handle_ == nullptr) gpipe::detail::throw_error({"the communicator was aborted"}, {"start all processes again"});
  }
  ncclResult_t state() const {
    ncclResult_t found = ncclSuccess;
    const ncclResult_t result = ncclCommGetAsyncError(handle_, &found);
    return result == ncclSuccess ? found : result;
  }
  // Calls NCCL and waits until the call is complete.
  template <class Call>
  void complete(const char* name, Call&& call) {
    try {
      check(call(), name);
    } catch (...) {
      abort();
      throw;
    }
    until(name, [&] {
      const ncclResult_t found = state();
      check(found, name);
      return found == ncclSuccess;
    });
  }
  template <class Done>
  void until(const char* name, Done&& done) {
    const auto limit = std::chrono::steady_clock::now() + deadline_;
    try {
      while (!done()) {
        if (std::chrono::steady_clock::now() > limit)
          gpipe::detail::throw_error({name, " is not complete after ", gpipe::detail::duration_text(deadline_)},
                                     {"see whether all ranks are alive, and set NCCL_DEBUG=WARN for details"});
        if (on_wait_) on_wait_();
        std::this_thread::yield();
      }
    } catch (...) {
      abort();
      throw;
    }
  }

  ncclComm_t handle_ = nullptr;
  std::chrono::nanoseconds deadline_;
  std::function<void()> on_wait_;
};

}  // namespace gpipe::nccl
