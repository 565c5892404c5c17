#pragma once

#include <gpipe/core/error.hpp>
#include <gpipe/transport/contract/call_fingerprint.hpp>
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

/// One of the values that a channel between processes carries: where its places lie here, and a sample's bytes.
struct cargo {
  std::byte* base = nullptr;
  std::size_t stride = 0;  ///< from place to place
  std::size_t row = 0;
};

/// A channel to or from another process. For the sender `place` tells which of its own places a micro-batch has and
/// `slot` which of the receiver's; for the receiver they are the same.
struct route {
  int peer = 0;            ///< the rank at the other end
  int capacity = 1;        ///< samples of a full micro-batch
  std::vector<cargo> values;
  std::vector<int> slot, place;  ///< [micro-batch]
  const void* queue = nullptr;   ///< of the device whose memory it is, in whose order the ends work; null: the host's
};

/// The end of a channel in the process that sends. The law is that of ends.hpp, but a micro-batch is named where there
/// it is a slot, `acquire` waits for earlier micro-batches to leave the place, and what fails throws at once.
class far_sender {
 public:
  virtual ~far_sender() = default;
  virtual void acquire(int micro_batch, errand what) = 0;
  virtual void publish(int micro_batch, int samples) = 0;
};

/// The end in the process that receives.
class far_receiver {
 public:
  virtual ~far_receiver() = default;
  virtual int consume(int micro_batch, errand what) = 0;  ///< its number of samples
  /// Whether `consume` would wait for nothing; who cannot tell says that it would.
  virtual bool arrived(int) { return false; }
  virtual void release(int micro_batch) = 0;
};

/// Where all processes bring bytes and take those of all others, at the end of every call. All or none: who leaves it
/// knows that all have come, and that none of them has failed before. What `settled` sent from is free again.
class assembly {
 public:
  virtual ~assembly() = default;
  virtual std::byte* mine() = 0;  ///< to be filled before
  virtual void meet(errand what, const std::vector<far_sender*>& settled) = 0;
  virtual const std::byte* of(int rank) const = 0;
};

/// The processes of a job as an executor sees them, of which this one is `rank()`. Every process makes the same calls
/// in the same order, from one thread; if one does not, all fail. What waits throws `detail::poisoned` after a failure
/// elsewhere; `agree` and `broadcast`, which are asked outside of steps, throw the cause.
///
/// A failure is *thrown*, by a process that goes on, or a process is *lost*: it has ended, was killed, or is silent.
/// After the first all meet in `recover`, and the next call works; after the second all that is asked throws the cause.
class peers {
 public:
  virtual ~peers() = default;
  virtual int rank() const noexcept = 0;
  virtual int ranks() const noexcept = 0;
  /// Whether it carries what lies in the memory of devices that have queues.
  virtual bool reaches_devices() const noexcept { return false; }

  /// How long silence may last, from now on.
  virtual void expect(std::chrono::nanoseconds deadline) = 0;
  /// Returns when all are asked for the same; else throws, on every rank, an `error` that names two that are not.
  virtual void agree(request what, std::span<const trait> traits) = 0;
  virtual std::unique_ptr<far_sender> sender(const route& along) = 0;
  virtual std::unique_ptr<far_receiver> receiver(const route& along) = 0;
  /// `sizes[r]`: the bytes that rank r brings.
  virtual std::unique_ptr<assembly> assemble(const std::vector<std::size_t>& sizes) = 0;

  /// Begins a call that ends in the meeting of an assembly. It waits for nobody: that another is asked for something
  /// else is a failure, which is found before they have met.
  virtual void enter(request what, std::span<const trait> traits) = 0;
  /// All ends are made; what it takes to use them is made now, and not in a step.
  virtual void connect() {}
  /// What this process does from now on: it shows that it lives, and looks whether others do.
  virtual void begin(errand what) = 0;
  /// It still does that, and looks whether others do.
  virtual void look() = 0;
  /// The host waits until all is done that was asked of a queue; null: there is nothing to wait for.
  virtual void wait(const void* /* queue */, errand /* what */) {}
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
