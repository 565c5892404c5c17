#pragma once

#include <chrono>
#include <functional>
#include <thread>
#include <utility>

#include <gpipe/device/cuda/stream/stream.hpp>
#include <gpipe/transport/contract/wait_limits.hpp>
#include <gpipe/transport/nccl/check.hpp>

namespace gpipe::nccl {

/// Ranks that send each other what lies in their GPUs' memory. Nobody is blocked: what takes time is looked after until
/// the deadline, and then, or when something failed, all that is under way here is aborted, for the GPU must not wait
/// for a rank that is no more. After that every call throws.
class communicator {
 public:
  /// All ranks make theirs at the same time, by one name. `meanwhile` is called while NCCL is waited for, and throws if
  /// that is in vain.
  GPIPE_ONCE communicator(const ncclUniqueId& name, int ranks, int rank, int gpu, std::chrono::nanoseconds deadline,
                          std::function<void()> meanwhile = {})
      : deadline_(deadline), meanwhile_(std::move(meanwhile)) {
    cuda::use(gpu);
    ncclConfig_t how = NCCL_CONFIG_INITIALIZER;
    how.blocking = 0;
    const ncclResult_t begun = ncclCommInitRankConfig(&handle_, ranks, name, rank, &how);
    attempt("ncclCommInitRankConfig", [&] { return begun; });
  }
  GPIPE_ONCE ~communicator() {
    if (handle_ == nullptr) return;
    try {
      attempt("ncclCommFinalize", [&] { return ncclCommFinalize(handle_); });
      static_cast<void>(ncclCommDestroy(handle_));
    } catch (...) {  // aborted
    }
  }
  communicator(const communicator&) = delete;
  communicator& operator=(const communicator&) = delete;

  /// Sends and receives that are asked for in `call`, all at once.
  template <class Call>
  void together(Call&& call) {
    require_whole();
    check(ncclGroupStart(), "ncclGroupStart");
    try {
      call();
    } catch (...) {
      static_cast<void>(ncclGroupEnd());
      abort();
      throw;
    }
    attempt("ncclGroupEnd", [] { return ncclGroupEnd(); });
  }
  void send(const std::byte* from, std::size_t bytes, int to, const cuda::stream& on) {
    check(ncclSend(from, bytes, ncclInt8, to, handle_, on.get()), "ncclSend");
  }
  void receive(std::byte* into, std::size_t bytes, int from, const cuda::stream& on) {
    check(ncclRecv(into, bytes, ncclInt8, from, handle_, on.get()), "ncclRecv");
  }

  /// Throws if what is under way has failed.
  void look() {
    require_whole();
    check(state(), "ncclCommGetAsyncError");
  }

  GPIPE_ONCE void abort() noexcept {
    if (handle_ != nullptr) static_cast<void>(ncclCommAbort(handle_));
    handle_ = nullptr;
  }

 private:
  void require_whole() const {
    if (handle_ == nullptr)
      gpipe::detail::refuse({"the communicator was aborted"}, {"begin anew: start all processes again"});
  }
  ncclResult_t state() const {
    ncclResult_t found = ncclSuccess;
    const ncclResult_t asked = ncclCommGetAsyncError(handle_, &found);
    return asked == ncclSuccess ? found : asked;
  }
  // Calls NCCL, and waits until it has done what was asked.
  template <class Call>
  void attempt(const char* name, Call&& call) {
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
          gpipe::detail::refuse({name, ": nothing came for ", gpipe::detail::told(deadline_)},
                                {"see whether all ranks are alive; NCCL_DEBUG=WARN tells more"});
        if (meanwhile_) meanwhile_();
        std::this_thread::yield();
      }
    } catch (...) {
      abort();
      throw;
    }
  }

  ncclComm_t handle_ = nullptr;
  std::chrono::nanoseconds deadline_;
  std::function<void()> meanwhile_;
};

}  // namespace gpipe::nccl
