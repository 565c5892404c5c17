#include <nccl.h>

#include <atomic>
#include <cstring>
#include <deque>
#include <map>

#include "emulator.hpp"

// The emulated NCCL: ranks are threads of one process. A send waits in its stream until the receive at the other end
// has copied its bytes.

using namespace emulated;

namespace {

struct message {
  u64 at;
  std::size_t bytes;
  moment sent;
  bool taken = false;
};
struct line {
  int joined = 0, ranks = 0;
  bool torn = false;                                                            ///< sizes did not match
  std::map<std::pair<int, int>, std::deque<std::shared_ptr<message>>> between;  ///< [from, to]
};
std::map<std::string, std::shared_ptr<line>> lines;

}  // namespace

struct ncclComm {
  std::shared_ptr<line> over;
  int rank;
  std::shared_ptr<bool> aborted = std::make_shared<bool>(false);
};

extern "C" {

ncclResult_t ncclGetUniqueId(ncclUniqueId* name) {
  static std::atomic<int> next{0};
  const int number = ++next;
  std::memset(name, 0, sizeof *name);
  return std::memcpy(name->internal, &number, sizeof number), ncclSuccess;
}
ncclResult_t ncclCommInitRankConfig(ncclComm_t* made, int ranks, ncclUniqueId name, int rank, ncclConfig_t*) {
  const std::lock_guard held(one_at_a_time);
  auto& over = lines[std::string(name.internal, sizeof name.internal)];
  if (!over) over = std::make_shared<line>();
  over->ranks = ranks, ++over->joined;
  *made = new ncclComm{over, rank};
  return ncclInProgress;
}
ncclResult_t ncclCommGetAsyncError(ncclComm_t c, ncclResult_t* found) {
  const std::lock_guard held(one_at_a_time);
  work_off();
  *found = c->over->torn ? ncclInvalidUsage : c->over->joined < c->over->ranks ? ncclInProgress : ncclSuccess;
  return ncclSuccess;
}
ncclResult_t ncclCommAbort(ncclComm_t c) {
  const std::lock_guard held(one_at_a_time);
  *c->aborted = true;
  work_off();
  return delete c, ncclSuccess;
}
ncclResult_t ncclCommFinalize(ncclComm_t) { return ncclSuccess; }
ncclResult_t ncclCommDestroy(ncclComm_t c) { return delete c, ncclSuccess; }
ncclResult_t ncclGroupStart() { return ncclSuccess; }
ncclResult_t ncclGroupEnd() { return ncclSuccess; }
const char* ncclGetErrorString(ncclResult_t r) { return r == ncclSuccess ? "no error" : "an error"; }
const char* ncclGetLastError(ncclComm_t) { return "the emulated NCCL"; }

ncclResult_t ncclSend(const void* at, std::size_t bytes, ncclDataType_t, int peer, ncclComm_t c, cudaStream_t on) {
  const std::lock_guard held(one_at_a_time);
  const auto it = std::make_shared<message>(message{reinterpret_cast<u64>(at), bytes, {}});
  const bool taken = enqueue(on, [=, over = c->over, rank = c->rank, aborted = c->aborted, posted = false]() mutable {
                       if (!posted)
                         it->sent.when = clock_now(), over->between[{rank, peer}].push_back(it), posted = true;
                       if (it->taken)
                         touch(it->at, bytes, false, "ncclSend");  // the writer of these bytes must be ordered before
                       return it->taken || *aborted;
                     }) == cudaSuccess;
  return taken ? ncclSuccess : ncclUnhandledCudaError;
}
ncclResult_t ncclRecv(void* into, std::size_t bytes, ncclDataType_t, int peer, ncclComm_t c, cudaStream_t on) {
  const std::lock_guard held(one_at_a_time);
  const bool taken = enqueue(on, [=, over = c->over, rank = c->rank, aborted = c->aborted] {
                       auto& coming = over->between[{peer, rank}];
                       if (*aborted) return true;
                       if (coming.empty()) return false;
                       const auto it = coming.front();
                       coming.pop_front();
                       if (it->bytes != bytes) over->torn = true;
                       else {
                         merge(clock_now(), it->sent.when);  // bytes arrive only after their send has begun
                         u8* const to = touch(reinterpret_cast<u64>(into), bytes, true, "ncclRecv");
                         if (to != nullptr) std::memcpy(to, bytes_of(it->at), bytes);
                       }
                       return it->taken = true;
                     }) == cudaSuccess;
  return taken ? ncclSuccess : ncclUnhandledCudaError;
}

}  // extern "C"
