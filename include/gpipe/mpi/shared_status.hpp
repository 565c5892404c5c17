#pragma once

#include <atomic>
#include <cstdint>
#include <cstring>
#include <new>
#include <string>
#include <string_view>
#include <unistd.h>

#include <gpipe/core/error.hpp>
#include <gpipe/transport/contract/wait_limits.hpp>

#define OMPI_SKIP_MPICXX 1  // the C++ bindings are obsolete and need another library
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>

namespace gpipe::mpi {

/// Throws if a call of MPI has failed.
inline void check(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  const auto fail = [&]() GPIPE_COLD {
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    MPI_Error_string(code, text, &length);
    detail::throw_error({call, " failed: ", text}, {"see MPI's messages, and check that all processes run one build"});
  };
  fail();
}

/// A text of fixed size, for shared memory and messages.
template <std::size_t Size>
struct fixed_text {
  char characters[Size] = {};

  void set(std::string_view text) noexcept {
    const std::size_t n = text.size() < Size ? text.size() : Size - 1;
    std::memcpy(characters, text.data(), n);
    characters[n] = 0;
  }
  std::string get() const { return characters; }
};

/// The present action of a process. Other processes read it, and only this one writes it.
struct alignas(2 * detail::alignment) process_status {
  std::atomic<std::uint64_t> ticks{0};  ///< progress: actions begun, messages sent and received
  std::atomic<std::uint64_t> beats{0};  ///< polls: the process is alive, even while it waits
  std::atomic<std::uint64_t> round{0};  ///< collective rounds that it has completed
  std::atomic<int> process{0};
  std::atomic<int> stage{-1}, micro_batch{-1};
  std::atomic<bool> left{false};       ///< the process leaves the job
  std::atomic<bool> runs_long{false};  ///< the present action is a kernel that has run for long
  std::atomic<bool> knows_loss{false}, prints_loss{false};
  fixed_text<32> action;  ///< read when the process makes no progress
  fixed_text<64> layer;   ///< likewise, of a kernel that has run for long

  void tick() noexcept { ticks.store(ticks.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed); }
  void beat() noexcept { beats.store(beats.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed); }
};

// change: an error location
/// An error as bytes, in shared memory or in a message.
struct cause {
  bool lost = false;            ///< a process is lost; otherwise a process has thrown and continues
  bool reports_itself = false;  ///< found by a process that can still print it
  bool leaves = false;          ///< no failure: `rank` waits for the other processes to leave
  bool printed = false;         ///< no failure: a process prints the loss
  std::uint64_t round = 0;      ///< completed by the process that found it; waits in earlier rounds continue
  fixed_text<1024> wrong, remedy;
  fixed_text<256> layer, file;
  fixed_text<64> host;
  fixed_text<32> action;
  int rank = -1, layer_index = -1, stage = -1, micro_batch = -1;
  long line = -1, step = -1;

  cause() = default;
  GPIPE_COLD cause(const error& failure, bool is_lost, std::uint64_t completed_rounds) noexcept
      : lost(is_lost), round(completed_rounds) {
    const detail::location& place = failure.where();
    wrong.set(failure.wrong());
    remedy.set(failure.remedy());
    layer.set(place.layer);
    file.set(place.file);
    host.set(place.host);
    action.set(place.action);
    rank = place.rank, layer_index = place.layer_index, stage = place.stage, micro_batch = place.micro_batch;
    line = place.line, step = place.step;
  }
  GPIPE_COLD error get() const {
    return {wrong.get(),
            remedy.get(),
            {.file = file.get(),
             .line = line,
             .layer = layer.get(),
             .layer_index = layer_index,
             .rank = rank,
             .host = host.get(),
             .stage = stage,
             .micro_batch = micro_batch,
             .action = action.get(),
             .step = step}};
  }
};

/// The cause of a failure: the first process to write it wins.
struct alignas(detail::alignment) first_failure {
  enum : int { none, writing, written };
  std::atomic<int> state{none};
  cause reason;

  bool is_set() const noexcept { return state.load(std::memory_order_acquire) == written; }
  /// Returns whether this cause was the first.
  bool put(const cause& found) noexcept {
    int free = none;
    if (!state.compare_exchange_strong(free, writing, std::memory_order_acq_rel)) return false;
    reason = found;
    state.store(written, std::memory_order_release);
    return true;
  }
};

/// Memory that the processes of one host share: the status of each, the first throw and the first loss.
class shared_status {
 public:
  /// Every process of the communicator makes one. If not `shares`, each process is treated as if alone on its host.
  GPIPE_COLD shared_status(MPI_Comm processes, bool shares) {
    if (shares)
      check(MPI_Comm_split_type(processes, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host_), "MPI_Comm_split_type");
    else check(MPI_Comm_dup(MPI_COMM_SELF, &host_), "MPI_Comm_dup");
    MPI_Comm_rank(host_, &own_);
    MPI_Comm_size(host_, &count_);
    const auto bytes =
        sizeof(header) + static_cast<std::size_t>(count_) * sizeof(process_status) + alignof(process_status);
    void* memory = nullptr;
    check(MPI_Win_allocate_shared(own_ == 0 ? static_cast<MPI_Aint>(bytes) : 0, 1, MPI_INFO_NULL, host_, &memory,
                                  &window_),
          "MPI_Win_allocate_shared");
    MPI_Aint size = 0;
    int unit = 0;
    check(MPI_Win_shared_query(window_, 0, &size, &unit, &memory), "MPI_Win_shared_query");
    auto address = reinterpret_cast<std::uintptr_t>(memory);
    address = (address + alignof(process_status) - 1) / alignof(process_status) * alignof(process_status);
    auto* const base = reinterpret_cast<std::byte*>(address);
    header_ = reinterpret_cast<header*>(base);
    status_ = reinterpret_cast<process_status*>(base + sizeof(header));
    if (own_ == 0) new (header_) header;
    new (status_ + own_) process_status;
    mine().process = getpid();
    MPI_Barrier(host_);
  }
  /// Called by all processes, or, after a loss, by none.
  GPIPE_COLD void close() {
    MPI_Win_free(&window_);
    MPI_Comm_free(&host_);
  }

  int count() const noexcept { return count_; }
  int own() const noexcept { return own_; }
  MPI_Comm host() const noexcept { return host_; }
  process_status& mine() noexcept { return status_[own_]; }
  process_status& of(int i) noexcept { return status_[i]; }
  first_failure& thrown() noexcept { return header_->thrown; }
  first_failure& lost() noexcept { return header_->lost; }
  bool put(const cause& found) noexcept { return (found.lost ? lost() : thrown()).put(found); }

  /// Ends a round for all processes; returns false if a process has given it up. Called by rank 0 when all have
  /// arrived.
  bool conclude(std::uint64_t round) noexcept {
    std::uint64_t concluded = header_->concluded.load();
    while ((concluded & 1) == 0)
      if (header_->concluded.compare_exchange_weak(concluded, round << 1)) return true;
    return false;
  }
  /// After a loss: returns false if the round has been concluded. Otherwise neither it nor a later one will be.
  bool give_up(std::uint64_t round) noexcept { return header_->concluded.fetch_or(1) >> 1 < round; }

 private:
  struct alignas(2 * detail::alignment) header {
    first_failure thrown, lost;
    std::atomic<std::uint64_t> concluded{0};  ///< twice the last round that has ended for all; odd: no more rounds
  };
  static_assert(std::atomic<std::uint64_t>::is_always_lock_free && std::atomic<int>::is_always_lock_free &&
                std::atomic<bool>::is_always_lock_free);

  MPI_Comm host_ = MPI_COMM_NULL;
  MPI_Win window_ = MPI_WIN_NULL;
  int own_ = 0, count_ = 1;
  header* header_ = nullptr;
  process_status* status_ = nullptr;
};

}  // namespace gpipe::mpi
