#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <thread>
#include <vector>

#include <gpipe/core/config.hpp>
#include <gpipe/core/error.hpp>
#include <gpipe/transport/contract/process_group.hpp>
#include <gpipe/transport/contract/wait_limits.hpp>

#if defined(__linux__)
#include <sched.h>
#endif

namespace gpipe::detail {

// change: core binding
/// The cores that the calling thread may run on. On systems other than Linux they are unknown and no thread moves.
class cores {
 public:
  static unsigned of_machine() noexcept { return std::thread::hardware_concurrency(); }
#if defined(__linux__)
  cores() noexcept : known_(sched_getaffinity(0, sizeof original_, &original_) == 0), left_(original_) {}

  /// The number of cores that the calling thread may run on: mpirun, Slurm or taskset may have bound the process to
  /// some of the machine's cores. Zero: unknown.
  static unsigned allowed() noexcept {
    cpu_set_t set;
    return sched_getaffinity(0, sizeof set, &set) == 0 ? static_cast<unsigned>(CPU_COUNT(&set)) : of_machine();
  }

  /// The same as bits; none: unknown.
  using bits = std::array<std::uint64_t, 16>;
  static bits allowed_bits() noexcept {
    bits found{};
    if (cpu_set_t set; sched_getaffinity(0, sizeof set, &set) == 0) {
      static_assert(sizeof found == sizeof set);
      std::memcpy(found.data(), &set, sizeof set);
    }
    return found;
  }
  /// Binds the calling thread to these cores. False: the system refuses.
  static bool bind(const bits& set) noexcept {
    cpu_set_t wanted;
    std::memcpy(&wanted, set.data(), sizeof wanted);
    return sched_setaffinity(0, sizeof wanted, &wanted) == 0;
  }
  /// Restores the cores that the calling thread could run on at construction.
  void restore() const noexcept {
    if (known_) sched_setaffinity(0, sizeof original_, &original_);
  }

  /// The core that the thread runs on now; -1: unknown.
  static int here() noexcept { return sched_getcpu(); }

  void exclude(int core) noexcept {
    if (core >= 0 && core < CPU_SETSIZE) CPU_CLR(static_cast<std::size_t>(core), &left_);
  }
  /// Moves the thread to a core that is not excluded, if there is one. Afterwards the thread may run on all cores
  /// again.
  void move() const noexcept {
    if (!known_ || CPU_COUNT(&left_) == 0 || sched_setaffinity(0, sizeof left_, &left_) != 0) return;
    restore();
  }

 private:
  cpu_set_t original_;
  bool known_;
  cpu_set_t left_;
#else
  static unsigned allowed() noexcept { return of_machine(); }
  using bits = std::array<std::uint64_t, 16>;
  static bits allowed_bits() noexcept { return {}; }
  static bool bind(const bits&) noexcept { return false; }
  void restore() const noexcept {}
  static int here() noexcept { return -1; }
  void exclude(int) noexcept {}
  void move() const noexcept {}
#endif
};

}  // namespace gpipe::detail

namespace gpipe {

/// Cores by their numbers in the system: core c is bit c % 64 of word c / 64. A core with two hardware threads has two
/// numbers.
using core_set = detail::cores::bits;

// change: core binding
/// Divides cores among the workers of a process. `core_binding` of <gpipe/hwloc.hpp> does so by the machine's topology.
class core_placement {
 public:
  virtual ~core_placement() = default;
  /// The cores of each worker of this process, at least one. `host` has the number of workers that divide the cores.
  virtual std::vector<core_set> divide(int workers, const host_cores& host) const = 0;
  /// Moves the whole pages of this memory to the memory of these cores' node. False: the system refuses.
  virtual bool move_near(void* memory, std::size_t bytes, const core_set& bound_cores) const noexcept = 0;
};

namespace detail {

inline int count_of(const core_set& set) noexcept {
  int count = 0;
  for (const std::uint64_t some : set) count += std::popcount(some);
  return count;
}

inline core_set united(const core_set& a, const core_set& b) noexcept {
  core_set found{};
  for (std::size_t i = 0; i < found.size(); ++i) found[i] = a[i] | b[i];
  return found;
}

/// The processes of a host, from the view of one of them; `allowed` has the cores of each.
GPIPE_COLD inline host_cores host_cores_of(const std::vector<core_set>& allowed, const std::vector<int>& workers,
                                           int process) {
  host_cores found{.processes = static_cast<int>(allowed.size()), .workers = 0, .alike = 0};
  core_set joined{};
  for (std::size_t p = 0; p < allowed.size(); ++p) {
    joined = united(joined, allowed[p]);
    found.workers += workers[p];
    if (allowed[p] != allowed[index(process)]) continue;
    if (p < index(process)) found.first += workers[p];
    found.alike += workers[p];
  }
  found.cores = count_of(joined);
  return found;
}

/// The cores of an executor's workers in this process, or nothing: no worker is bound.
class worker_cores {
 public:
  /// `placement` null: nothing. Throws if the system binds no thread to these cores.
  GPIPE_COLD worker_cores(const core_placement* placement, int workers, const host_cores& host)
      : placement_(placement) {
    if (placement_ == nullptr) return;
    sets_ = placement_->divide(workers, host);
    if (static_cast<int>(sets_.size()) != workers)
      throw_error({"cores: ", workers, " workers got ", sets_.size(), " sets of cores"},
                  {"return a set for each worker"});
    const cores before;
    const core_set allowed = cores::allowed_bits();
    for (int w = 0; w < workers; ++w) {
      const bool bound = united(allowed, sets_[index(w)]) == allowed && cores::bind(sets_[index(w)]);
      before.restore();
      if (!bound)
        throw_error({"cores: the system binds no thread to the ", count_of(sets_[index(w)]), " cores of worker ", w},
                    {"make the core_binding under the limits that the training has (taskset, cpusets), or choose "
                     ".cores = nullptr"});
    }
  }

  explicit operator bool() const noexcept { return placement_ != nullptr; }
  /// The number of cores of a worker; without argument, of all workers together.
  int count(int worker) const noexcept { return count_of(sets_[index(worker)]); }
  /// The number of workers in this process that share a core with a worker, including it.
  int sharers(int worker) const noexcept {
    int found = 0;
    for (const core_set& set : sets_)
      found += count_of(united(set, sets_[index(worker)])) < count_of(set) + count_of(sets_[index(worker)]);
    return found;
  }
  int count() const noexcept {
    core_set joined{};
    for (const core_set& set : sets_) joined = united(joined, set);
    return count_of(joined);
  }

  /// Bound workers do not move, and yield if they outnumber their cores, which may be fewer than the process's.
  GPIPE_COLD wait_limits limits_of(wait_limits any) const {
    if (placement_ != nullptr) any.bound = true, any.yields = static_cast<int>(sets_.size()) > count();
    return any;
  }

  /// Binds the calling thread of a worker. If the system refuses now, after it did so at construction, only the speed
  /// changes.
  void bind(int worker) const noexcept {
    if (placement_ != nullptr) cores::bind(sets_[index(worker)]);
  }
  bool move_near(void* memory, std::size_t bytes, int worker) const noexcept {
    return placement_ == nullptr || placement_->move_near(memory, bytes, sets_[index(worker)]);
  }

 private:
  const core_placement* placement_;
  std::vector<core_set> sets_;  // [worker]
};

/// Binds the calling thread as a worker, and restores its cores at the end.
class bound_for_now {
 public:
  bound_for_now(const worker_cores* bound_cores, int worker) noexcept {
    if (bound_cores == nullptr || !*bound_cores) return;
    before_.emplace();
    bound_cores->bind(worker);
  }
  ~bound_for_now() {
    if (before_) before_->restore();
  }
  bound_for_now(const bound_for_now&) = delete;
  bound_for_now& operator=(const bound_for_now&) = delete;

 private:
  std::optional<cores> before_;
};

}  // namespace detail

}  // namespace gpipe
