#pragma once

// NCCL between pretended GPUs: ranks are threads of this program, and a stream's operations wait in it for the stream
// at the other end, as on GPUs.

#include <nccl.h>

#include <atomic>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "support/pretended/gpu.hpp"

namespace pretended {

/// The shared state of a communicator's ranks.
struct line {
  struct message {
    const void* at;
    std::size_t bytes;
    bool taken = false;
  };
  std::mutex lock;
  std::condition_variable all;
  int joined = 0, ranks = 0;
  bool torn = false;  ///< sizes did not match
  std::map<int, std::deque<std::shared_ptr<message>>> from;  ///< [rank that sends]
};

inline std::mutex lines_lock;
inline std::map<std::string, std::shared_ptr<line>> lines;
inline std::atomic<int> messages{0};  ///< number of all that have arrived

}  // namespace pretended

struct ncclComm {
  std::shared_ptr<pretended::line> over;
  int rank;
  std::shared_ptr<std::atomic<bool>> aborted = std::make_shared<std::atomic<bool>>(false);
};

inline ncclResult_t ncclGetUniqueId(ncclUniqueId* name) {
  static std::atomic<int> next{0};
  const int number = ++next;
  *name = {};
  std::memcpy(name->internal, &number, sizeof number);
  return ncclSuccess;
}
inline ncclResult_t ncclCommInitRankConfig(ncclComm_t* made, int ranks, ncclUniqueId name, int rank, ncclConfig_t*) {
  const std::lock_guard inside(pretended::lines_lock);
  auto& over = pretended::lines[std::string(name.internal, sizeof name.internal)];
  if (!over) over = std::make_shared<pretended::line>();
  const std::lock_guard here(over->lock);
  over->ranks = ranks;
  ++over->joined;
  *made = new ncclComm{over, rank};
  return ncclInProgress;
}
inline ncclResult_t ncclCommGetAsyncError(ncclComm_t of, ncclResult_t* found) {
  const std::lock_guard here(of->over->lock);
  *found = of->over->torn ? ncclInvalidUsage : of->over->joined < of->over->ranks ? ncclInProgress : ncclSuccess;
  return ncclSuccess;
}
inline ncclResult_t ncclCommAbort(ncclComm_t of) {
  {
    const std::lock_guard here(of->over->lock);
    *of->aborted = true;
    of->over->all.notify_all();
  }
  delete of;
  return ncclSuccess;
}
inline ncclResult_t ncclCommFinalize(ncclComm_t) { return ncclSuccess; }
inline ncclResult_t ncclCommDestroy(ncclComm_t of) { return delete of, ncclSuccess; }
inline ncclResult_t ncclGroupStart() { return ncclSuccess; }
inline ncclResult_t ncclGroupEnd() { return ncclSuccess; }
inline const char* ncclGetErrorString(ncclResult_t found) { return found == ncclSuccess ? "no error" : "an error"; }
inline const char* ncclGetLastError(ncclComm_t) { return "pretended"; }

inline ncclResult_t ncclSend(const void* at, std::size_t bytes, ncclDataType_t, int, ncclComm_t of, cudaStream_t on) {
  on->enqueue([over = of->over, rank = of->rank, aborted = of->aborted, at, bytes] {
    std::unique_lock here(over->lock);
    const auto it = std::make_shared<pretended::line::message>(pretended::line::message{at, bytes});
    over->from[rank].push_back(it);
    over->all.notify_all();
    over->all.wait(here, [&] { return it->taken || *aborted; });
  });
  return ncclSuccess;
}
inline ncclResult_t ncclRecv(void* into, std::size_t bytes, ncclDataType_t, int peer, ncclComm_t of, cudaStream_t on) {
  on->enqueue([over = of->over, peer, aborted = of->aborted, into, bytes] {
    std::unique_lock here(over->lock);
    auto& coming = over->from[peer];
    over->all.wait(here, [&] { return !coming.empty() || *aborted; });
    if (*aborted) return;
    const auto it = coming.front();
    coming.pop_front();
    if (it->bytes == bytes) std::memcpy(into, it->at, bytes);
    else over->torn = true;
    it->taken = true;
    ++pretended::messages;
    over->all.notify_all();
  });
  return ncclSuccess;
}
