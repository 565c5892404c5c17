#pragma once

#include <gpipe/core/error.hpp>
#include <gpipe/transport/contract/wait_limits.hpp>
#include <gpipe/transport/mpi/check.hpp>

#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <new>
#include <string>
#include <string_view>

namespace gpipe::mpi {

/// A text in shared memory.
template <std::size_t Size>
struct written {
  char letters[Size] = {};

  void set(std::string_view text) noexcept {
    const std::size_t n = text.size() < Size ? text.size() : Size - 1;
    std::memcpy(letters, text.data(), n);
    letters[n] = 0;
  }
  std::string get() const { return letters; }
};

/// What a process does now, for the others to see. Only it writes there.
struct alignas(2 * alignment) page {
  std::atomic<std::uint64_t> ticks{0};  ///< actions begun, messages come and gone
  std::atomic<std::uint64_t> beats{0};  ///< looks around: it lives, if only to wait
  std::atomic<std::uint64_t> round{0};  ///< assemblies and broadcasts behind it
  std::atomic<int> process{0};
  std::atomic<int> stage{-1}, micro_batch{-1};
  std::atomic<bool> left{false};  ///< it ends
  std::atomic<bool> told{false};  ///< it knows of the loss
  written<32> action;  ///< read when it no longer moves

  void tick() noexcept { ticks.store(ticks.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed); }
  void beat() noexcept { beats.store(beats.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed); }
};

/// An error as bytes, in memory that is shared or in a message.
struct cause {
  bool lost = false;        ///< a process is; else one has thrown, and goes on
  bool own = false;         ///< told by a process that can still tell its user
  bool leaves = false;      ///< neither: it only says that `rank` waits for the others to leave
  std::uint64_t round = 0;  ///< what who found it had behind it: those who wait for something earlier go on
  written<1024> wrong, remedy;
  written<256> layer, file;
  written<32> action;
  int rank = -1, slot = -1, stage = -1, micro_batch = -1;
  long line = -1, step = -1;

  cause() = default;
  GPIPE_ONCE cause(const error& of, bool is_lost, std::uint64_t now) noexcept : lost(is_lost), round(now) {
    const place& at = of.where();
    wrong.set(of.wrong());
    remedy.set(of.remedy());
    layer.set(at.layer);
    file.set(at.file);
    action.set(at.action);
    rank = at.rank, slot = at.slot, stage = at.stage, micro_batch = at.micro_batch;
    line = at.line, step = at.step;
  }
  GPIPE_ONCE error get() const {
    return {wrong.get(), remedy.get(),
            {.file = file.get(), .line = line, .layer = layer.get(), .slot = slot, .rank = rank, .stage = stage,
             .micro_batch = micro_batch, .action = action.get(), .step = step}};
  }
};

/// The first cause of a failure: who writes it first has it.
struct alignas(alignment) verdict {
  enum : int { none, writing, there };
  std::atomic<int> state{none};
  cause what;

  bool is_there() const noexcept { return state.load(std::memory_order_acquire) == there; }
  /// Whether it was the first.
  bool put(const cause& found) noexcept {
    int free = none;
    if (!state.compare_exchange_strong(free, writing, std::memory_order_acq_rel)) return false;
    what = found;
    state.store(there, std::memory_order_release);
    return true;
  }
};

/// Memory that the processes of one host share: a page for each, what was thrown, and who is lost.
class ledger {
 public:
  /// Every process of `everyone` makes one; with nobody, if they are not to share memory.
  GPIPE_ONCE ledger(MPI_Comm everyone, bool shares) {
    if (shares)
      check(MPI_Comm_split_type(everyone, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host_), "MPI_Comm_split_type");
    else check(MPI_Comm_dup(MPI_COMM_SELF, &host_), "MPI_Comm_dup");
    MPI_Comm_rank(host_, &own_);
    MPI_Comm_size(host_, &count_);
    const auto bytes = sizeof(heading) + static_cast<std::size_t>(count_) * sizeof(page) + alignof(page);
    void* at = nullptr;
    check(MPI_Win_allocate_shared(own_ == 0 ? static_cast<MPI_Aint>(bytes) : 0, 1, MPI_INFO_NULL, host_, &at, &window_),
          "MPI_Win_allocate_shared");
    MPI_Aint size = 0;
    int unit = 0;
    check(MPI_Win_shared_query(window_, 0, &size, &unit, &at), "MPI_Win_shared_query");
    auto place = reinterpret_cast<std::uintptr_t>(at);
    place = (place + alignof(page) - 1) / alignof(page) * alignof(page);
    auto* const base = reinterpret_cast<std::byte*>(place);
    heading_ = reinterpret_cast<heading*>(base);
    pages_ = reinterpret_cast<page*>(base + sizeof(heading));
    if (own_ == 0) new (heading_) heading;
    new (pages_ + own_) page;
    mine().process = static_cast<int>(getpid());
    MPI_Barrier(host_);
  }
  /// With all processes, or, after a loss, not at all.
  GPIPE_ONCE void close() {
    MPI_Win_free(&window_);
    MPI_Comm_free(&host_);
  }

  int count() const noexcept { return count_; }
  int own() const noexcept { return own_; }
  MPI_Comm host() const noexcept { return host_; }
  page& mine() noexcept { return pages_[own_]; }
  page& of(int i) noexcept { return pages_[i]; }
  verdict& thrown() noexcept { return heading_->thrown; }
  verdict& lost() noexcept { return heading_->lost; }
  bool put(const cause& found) noexcept { return (found.lost ? lost() : thrown()).put(found); }

  /// A round ends for all, or for nobody: false if somebody has given it up. Rank 0 asks, when all have come.
  bool conclude(std::uint64_t round) noexcept {
    std::uint64_t now = heading_->concluded.load();
    while ((now & 1) == 0)
      if (heading_->concluded.compare_exchange_weak(now, round << 1)) return true;
    return false;
  }
  /// After a loss: false if the round has been concluded. Else it never is, and none behind it.
  bool give_up(std::uint64_t round) noexcept { return heading_->concluded.fetch_or(1) >> 1 < round; }

 private:
  struct alignas(2 * alignment) heading {
    verdict thrown, lost;
    std::atomic<std::uint64_t> concluded{0};  ///< twice the last round that has ended for all; odd: there is none behind
  };
  static_assert(std::atomic<std::uint64_t>::is_always_lock_free && std::atomic<int>::is_always_lock_free &&
                std::atomic<bool>::is_always_lock_free);

  MPI_Comm host_ = MPI_COMM_NULL;
  MPI_Win window_ = MPI_WIN_NULL;
  int own_ = 0, count_ = 1;
  heading* heading_ = nullptr;
  page* pages_ = nullptr;
};

}  // namespace gpipe::mpi
