#pragma once

#include <gpipe/core/error.hpp>
#include <gpipe/transport/contract/call_fingerprint.hpp>
#include <gpipe/transport/contract/channel_ends.hpp>
#include <gpipe/transport/contract/wait_limits.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace gpipe {

/// All processes contribute bytes and read those of all others, at the end of every call. All or none: a process that
/// returns from `gather` knows that all have contributed and that none had failed before.
class all_gather {
 public:
  virtual ~all_gather() = default;
  virtual std::byte* mine() = 0;  ///< to fill before `gather`
  /// On return the slots that the ends in `settled` sent from are free again.
  virtual void gather(wait_context what, const std::vector<sending_end*>& settled) = 0;
  virtual const std::byte* of(int rank) const = 0;
};

/// The processes of a host, as one of them sees it. Those that may run on the same cores divide them, by workers.
struct host_cores {
  int processes = 1, workers = 1;
  int cores = 0;  ///< that they may run on together; 0: unknown
  int alike = 1;  ///< workers of this process and of those that may run on the same cores
  int first = 0;  ///< the first one of this process among these
};

/// The processes of a job as an executor sees them; this one is `rank()`. Every process makes the same calls in the
/// same order, from one thread at a time; if one does not, all fail. After a failure elsewhere calls that wait throw
/// `detail::interrupted`; `agree` and `broadcast`, which are made outside of steps, throw the cause.
///
/// A failure is *thrown*, by a process that goes on, or a process is *lost*: it has ended, was killed, or shows no sign
/// of life. After the first all processes call `recover` and the next call works; after the second every call throws
/// the cause.
class process_group {
 public:
  virtual ~process_group() = default;
  virtual int rank() const noexcept = 0;
  virtual int ranks() const noexcept = 0;
  /// Whether its channels read and write the memory of devices that have queues.
  virtual bool reaches_devices() const noexcept { return false; }
  virtual host_cores on_this_host() const noexcept { return {}; }
  /// Whether several threads of this process may use its channels at once, each its own, and call `begin` and `poll`.
  virtual bool takes_threads() const noexcept { return false; }
  /// The processes have that many workers from now on, each in a thread: [rank].
  virtual void set_workers(const std::vector<int>& /* counts */) {}

  /// Sets how long a wait may last without progress, from now on.
  virtual void expect(std::chrono::nanoseconds deadline) = 0;
  /// Returns when all processes make the same call; else throws, on every rank, an `error` that names two that differ.
  virtual void agree(collective_kind what, std::span<const agreed_value> values) = 0;
  virtual std::unique_ptr<sending_end> sender(const channel_layout& layout) = 0;
  virtual std::unique_ptr<receiving_end> receiver(const channel_layout& layout) = 0;
  /// `sizes[r]`: the bytes that rank r contributes.
  virtual std::unique_ptr<all_gather> make_all_gather(const std::vector<std::size_t>& sizes) = 0;

  /// Begins a call that ends in an `all_gather`. It does not wait: a process that makes another call is a failure,
  /// which is found before all have gathered.
  virtual void enter(collective_kind what, std::span<const agreed_value> values) = 0;
  /// All ends are made. Their resources are made now, not in a step.
  virtual void connect() {}
  /// Reports what this process does from now on, which counts as progress, and checks for failures elsewhere.
  virtual void begin(wait_context what) = 0;
  /// Reports that this process is alive, without progress, and checks for failures elsewhere.
  virtual void poll() = 0;
  /// Reports where a kernel runs for long, again and again, and then once a location without a stage. The errors of
  /// other processes name it: one of several workers here may have made a call after the kernel's.
  virtual void runs_long(const detail::location& /* kernel */) noexcept {}
  /// The host waits until a queue has done all its work; null: there is nothing to wait for.
  virtual void wait(const void* /* queue */, wait_context /* what */) {}
  /// Sends bytes of rank `root` to all; `which` identifies them and is the same everywhere.
  virtual void broadcast(void* bytes, std::size_t size, int root, std::uint64_t which) = 0;

  /// Reports to all others that this process has failed and why, unless another failure was first.
  virtual void fail(const error& cause) noexcept = 0;
  /// After a failure, before anything else: no device waits for another process any more.
  virtual void abandon() noexcept {}
  /// After a failure: returns the first cause, or the loss, when no message is under way and all processes are here.
  virtual error recover() = 0;

  /// In a program's last handler: this process ends for this cause, and all others end too. Returns whether this
  /// process is to print the cause: rank 0 is, or, if rank 0 is lost, each of the others.
  virtual bool leave(const error& cause) noexcept = 0;
  /// Whether another process is lost that has not left for a cause of its own: a new job may go on without it.
  virtual bool lost() const noexcept = 0;
};

}  // namespace gpipe
