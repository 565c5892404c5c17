#include <fcntl.h>
#include <nccl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "emulator.hpp"

// The emulated NCCL: ranks are threads of one process, or processes of one host. The ranks of a communicator map a
// file, in which each two of them have a place for one message, with the clock of its send:
//
//     send       free -> sent, with the bytes; then taken -> free
//     receive    sent -> taken; comes after all that the send comes after

using namespace emulated;

namespace {

// Most of the file is a hole: few bytes are written.
constexpr int max_ranks = 8;
constexpr std::size_t message_bytes = std::size_t{64} << 20, header_bytes = 4096;
constexpr std::size_t file_bytes = header_bytes + message_bytes * max_ranks * max_ranks;

struct message {
  enum { free, sent, taken };
  std::atomic<int> is;
  std::size_t bytes, known;  ///< the operations that the send comes after stand behind its bytes
  u8* data() { return reinterpret_cast<u8*>(this + 1); }
};
struct shared_file {
  std::atomic<int> joined;
  std::atomic<long> processes;  ///< the sum of the ranks' ids
  std::atomic<bool> torn;       ///< sizes did not match

  message& between(int from, int to) {
    const auto place = static_cast<std::size_t>(from * max_ranks + to);
    return *reinterpret_cast<message*>(reinterpret_cast<u8*>(this) + header_bytes + message_bytes * place);
  }
};

/// A GPU goes on while its host waits for another process.
void go_on_alone() {
  [[maybe_unused]] static const bool started = [] {
    std::thread([] {
      for (;; std::this_thread::sleep_for(std::chrono::milliseconds(1))) {
        const std::lock_guard held(one_at_a_time);
        work_off();
      }
    }).detach();
    return true;
  }();
}

}  // namespace

struct ncclComm {
  std::shared_ptr<shared_file> file;
  std::string path;
  int rank, ranks;
  std::shared_ptr<bool> aborted = std::make_shared<bool>(false);
};

extern "C" {

ncclResult_t ncclGetUniqueId(ncclUniqueId* name) {
  std::memset(name, 0, sizeof *name);
  std::strcpy(name->internal, "/tmp/emulated_nccl.XXXXXX");
  const int file = mkstemp(name->internal);
  return file >= 0 && close(file) == 0 ? ncclSuccess : ncclSystemError;
}
ncclResult_t ncclCommInitRankConfig(ncclComm_t* made, int ranks, ncclUniqueId name, int rank, ncclConfig_t*) {
  if (ranks > max_ranks) return ncclInvalidArgument;
  const int file = open(name.internal, O_RDWR);
  if (file < 0) return ncclSystemError;
  void* at = MAP_FAILED;
  if (ftruncate(file, file_bytes) == 0)
    at = mmap(nullptr, file_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0);
  close(file);
  if (at == MAP_FAILED) return ncclSystemError;
  *made = new ncclComm{
      {static_cast<shared_file*>(at), [](shared_file* it) { munmap(it, file_bytes); }}, name.internal, rank, ranks};
  (*made)->file->processes += getpid();
  if (++(*made)->file->joined == ranks) unlink(name.internal);
  return ncclInProgress;
}
ncclResult_t ncclCommGetAsyncError(ncclComm_t c, ncclResult_t* found) {
  const std::lock_guard held(one_at_a_time);
  work_off();
  if (c->file->joined == c->ranks && c->file->processes != long{getpid()} * c->ranks) go_on_alone();
  *found = c->file->torn ? ncclInvalidUsage : c->file->joined < c->ranks ? ncclInProgress : ncclSuccess;
  return ncclSuccess;
}
ncclResult_t ncclCommDestroy(ncclComm_t c) {
  unlink(c->path.c_str());  // if not all have joined
  return delete c, ncclSuccess;
}
ncclResult_t ncclCommAbort(ncclComm_t c) {
  const std::lock_guard held(one_at_a_time);
  *c->aborted = true;
  work_off();
  return ncclCommDestroy(c);
}
ncclResult_t ncclCommFinalize(ncclComm_t) { return ncclSuccess; }
ncclResult_t ncclGroupStart() { return ncclSuccess; }
ncclResult_t ncclGroupEnd() { return ncclSuccess; }
const char* ncclGetErrorString(ncclResult_t r) { return r == ncclSuccess ? "no error" : "an error"; }
const char* ncclGetLastError(ncclComm_t) { return "the emulated NCCL"; }

ncclResult_t ncclSend(const void* at, std::size_t bytes, ncclDataType_t, int peer, ncclComm_t c, cudaStream_t on) {
  const std::lock_guard held(one_at_a_time);
  const auto post = [=, file = c->file, rank = c->rank, aborted = c->aborted] {
    message& to = file->between(rank, peer);
    if (*aborted) return true;
    if (to.is != message::free) return false;
    const auto known = known_operations();
    const std::size_t clock_bytes = known.size() * sizeof known[0];
    if (sizeof to + bytes + clock_bytes > message_bytes) std::abort();
    const u8* const from = touch(reinterpret_cast<u64>(at), bytes, false, "ncclSend");
    if (from != nullptr) std::memcpy(to.data(), from, bytes);
    std::memcpy(to.data() + bytes, known.data(), clock_bytes);
    to.bytes = bytes, to.known = known.size(), to.is = message::sent;
    return true;
  };
  const auto wait = [=, file = c->file, rank = c->rank, aborted = c->aborted] {
    int taken = message::taken;
    return *aborted || file->between(rank, peer).is.compare_exchange_strong(taken, message::free);
  };
  return enqueue(on, post) == cudaSuccess && enqueue(on, wait) == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}
ncclResult_t ncclRecv(void* into, std::size_t bytes, ncclDataType_t, int peer, ncclComm_t c, cudaStream_t on) {
  const std::lock_guard held(one_at_a_time);
  const auto receive = [=, file = c->file, rank = c->rank, aborted = c->aborted] {
    message& from = file->between(peer, rank);
    if (*aborted) return true;
    if (from.is != message::sent) return false;
    if (from.bytes != bytes) file->torn = true;
    else {
      std::vector<known_operation> known(from.known);
      std::memcpy(known.data(), from.data() + bytes, known.size() * sizeof known[0]);
      come_after(known);
      u8* const to = touch(reinterpret_cast<u64>(into), bytes, true, "ncclRecv");
      if (to != nullptr) std::memcpy(to, from.data(), bytes);
    }
    from.is = message::taken;
    return true;
  };
  return enqueue(on, receive) == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}

}  // extern "C"
