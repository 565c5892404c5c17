#pragma once

#include <gpipe/transport/contract/wait_limits.hpp>

#include <cstddef>
#include <vector>

namespace gpipe {

// A channel joins one sender to one receiver over K slots of the receiver's memory. Calls name a micro-batch, whose
// slot is in the program of both ends. In one process both ends are one object, between processes two.
//
//   sender     acquire(m) ... write ... publish(m, n)
//   receiver                                         n = consume(m) ... read ... release(m)
//   m's slot   free       taken         full         in use                      free
//
// All implementations follow this law (tests/support/channel_law.hpp):
//   - values written before `publish` are read after `consume`, with their number of samples; nothing is lost or
//     duplicated, each slot's contents arrive in order, and slots may be released in another order than acquired;
//   - `acquire` and `consume` are the only calls that wait. A failure elsewhere ends both, spinning or asleep, by
//     throwing `detail::interrupted`; so does a deadline without progress, whose error has the `wait_context` as its
//     location: the wait throws that error, or the job returns it when it recovers;
//   - nothing is allocated after construction;
//   - after a failure, and once the channel or its job is reset, every slot is free; destruction never waits for an end
//     that failed.
//
// Between processes the sender also has slots: `acquire` waits until earlier micro-batches have left its slot. Ends for
// a device's queue are used in its order: they make the queue wait, the host waits only in `process_group::wait`, and
// `consume` returns the number of samples of a full micro-batch.

// change: a transport
/// The end of a channel that sends.
class sending_end {
 public:
  virtual ~sending_end() = default;
  virtual void acquire(int micro_batch, wait_context context) = 0;
  virtual void publish(int micro_batch, int samples) = 0;
};

/// The end that receives.
class receiving_end {
 public:
  virtual ~receiving_end() = default;
  virtual int consume(int micro_batch, wait_context context) = 0;  ///< returns the number of samples
  /// Whether `consume` would return at once; false if that is unknown.
  virtual bool arrived(int /* micro_batch */) { return false; }
  virtual void release(int micro_batch) = 0;
};

// assumes: links in a process move no bytes
/// The slots of a value, which a channel between processes transfers, in this process's memory.
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
  const void* queue = nullptr;     ///< the queue of the memory's device, in whose order the ends work; null: the host
};

}  // namespace gpipe
