#pragma once

#include <gpipe/transport/contract/wait_limits.hpp>

#include <cstddef>
#include <vector>

namespace gpipe {

// A channel joins one sender to one receiver over K slots of the receiver's memory. Both ends name a micro-batch; both
// know its slot from the program. In one process both ends are one object, between processes two.
//
//   sender     acquire(m) ... write ... publish(m, n)
//   receiver                                         n = consume(m) ... read ... release(m)
//   m's slot   free       taken         full         in use                      free
//
// The law, kept by every model (tests/support/channel_law.hpp):
//   - what was written before `publish` is read after `consume`, with its number of samples; nothing is lost or
//     doubled, each slot's contents arrive in order, and slots may be released in another order than acquired;
//   - `acquire` and `consume` are the only calls that wait. A failure elsewhere ends both, spinning or asleep, by
//     throwing `detail::interrupted`; so does a deadline without progress, whose error has the `wait_context` as its
//     location: the wait throws that error itself, or the job returns it when it recovers;
//   - nothing is allocated after construction;
//   - after a failure, and once the channel or its job is reset, every slot is free; destruction never waits for an end
//     that failed.
//
// Between processes the sender has slots of its own: `acquire` waits until earlier micro-batches have left its slot.
// Ends for a device's queue are used in its order: they make the queue wait, the host waits in `process_group::wait`
// alone, and `consume` returns the number of samples of a full micro-batch.

/// The end of a channel that sends.
class sending_end {
 public:
  virtual ~sending_end() = default;
  virtual void acquire(int micro_batch, wait_context what) = 0;
  virtual void publish(int micro_batch, int samples) = 0;
};

/// The end that receives.
class receiving_end {
 public:
  virtual ~receiving_end() = default;
  virtual int consume(int micro_batch, wait_context what) = 0;  ///< returns the number of samples
  /// Whether `consume` would return at once; an end that does not know returns false.
  virtual bool arrived(int /* micro_batch */) { return false; }
  virtual void release(int micro_batch) = 0;
};

/// A value that a channel between processes carries: where its slots begin in this process's memory.
struct buffer_layout {
  std::byte* base = nullptr;
  std::size_t stride = 0;  ///< bytes from slot to slot
  std::size_t row = 0;     ///< bytes of a sample
};

/// A channel to or from another process.
struct channel_layout {
  int peer = 0;      ///< the rank at the other end
  int capacity = 1;  ///< samples of a full micro-batch
  std::vector<buffer_layout> values;
  std::vector<int> receiver_slot;  ///< [micro-batch]
  std::vector<int> sender_slot;    ///< [micro-batch]; the receiver does not read it
  const void* queue = nullptr;     ///< of the device that has the memory, in whose order the ends work; null: the host
};

}  // namespace gpipe
