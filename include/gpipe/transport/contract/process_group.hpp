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
#include <string>
#include <string_view>
#include <vector>

namespace gpipe {

/// Where all processes bring bytes and take those of all others, at the end of every call. All or none: who leaves it
/// knows that all have come, and that none of them has failed before. What `settled` sent from is free again.
class all_gather {
 public:
  virtual ~all_gather() = default;
  virtual std::byte* mine() = 0;  ///< to be filled before
  virtual void meet(wait_context what, const std::vector<sending_end*>& settled) = 0;
  virtual const std::byte* of(int rank) const = 0;
};

/// The processes of a job as an executor sees them, of which this one is `rank()`. Every process makes the same calls
/// in the same order, from one thread; if one does not, all fail. What waits throws `detail::interrupted` after a failure
/// elsewhere; `agree` and `broadcast`, which are asked outside of steps, throw the cause.
///
/// A failure is *thrown*, by a process that goes on, or a process is *lost*: it has ended, was killed, or is silent.
/// After the first all meet in `recover`, and the next call works; after the second all that is asked throws the cause.
class process_group {
 public:
  virtual ~process_group() = default;
  virtual int rank() const noexcept = 0;
  virtual int ranks() const noexcept = 0;
  /// Whether it carries what lies in the memory of devices that have queues.
  virtual bool reaches_devices() const noexcept { return false; }

  /// How long silence may last, from now on.
  virtual void expect(std::chrono::nanoseconds deadline) = 0;
  /// Returns when all are asked for the same; else throws, on every rank, an `error` that names two that are not.
  virtual void agree(collective_kind what, std::span<const agreed_value> traits) = 0;
  virtual std::unique_ptr<sending_end> sender(const channel_layout& along) = 0;
  virtual std::unique_ptr<receiving_end> receiver(const channel_layout& along) = 0;
  /// `sizes[r]`: the bytes that rank r brings.
  virtual std::unique_ptr<all_gather> make_all_gather(const std::vector<std::size_t>& sizes) = 0;

  /// Begins a call that ends in the meeting of an assembly. It waits for nobody: that another is asked for something
  /// else is a failure, which is found before they have met.
  virtual void enter(collective_kind what, std::span<const agreed_value> traits) = 0;
  /// All ends are made; what it takes to use them is made now, and not in a step.
  virtual void connect() {}
  /// What this process does from now on: it shows that it lives, and looks whether others do.
  virtual void begin(wait_context what) = 0;
  /// It still does that, and looks whether others do.
  virtual void look() = 0;
  /// The host waits until all is done that was asked of a queue; null: there is nothing to wait for.
  virtual void wait(const void* /* queue */, wait_context /* what */) {}
  /// Bytes of rank `root` to all; `which` tells them from others, and is the same everywhere.
  virtual void broadcast(void* bytes, std::size_t size, int root, std::uint64_t which) = 0;

  /// Tells all others that this process has failed, and why, if nobody was first.
  virtual void fail(const error& cause) noexcept = 0;
  /// After a failure, before anything else: no device waits for another process any more.
  virtual void abandon() noexcept {}
  /// After a failure: returns when no message is under way and all processes are here. The first cause, or the loss.
  virtual error recover() = 0;

  /// In a program's last handler: this process ends, for this cause, and so do all others, if they do not already.
  /// Whether it is the one to tell the user: rank 0 is, and where that is lost, each of the others.
  virtual bool leave(const error& cause) noexcept = 0;
};

}  // namespace gpipe
