#pragma once

#include <cstdint>
#include <memory>

#include <gpipe/transport/in_process/worker_signals.hpp>

namespace gpipe::detail {

// change: link emulation
/// Makes the transfers of one direction of a link take time. It is called next to a channel and moves nothing:
///
///     sender     write ... depart(m, bytes)  publish(m)
///     receiver                                           consume(m)  arrive(m)  read ...
class link_delay {
 public:
  virtual ~link_delay() = default;
  /// Sender, before `publish`: these bytes leave.
  virtual void depart(int micro_batch, std::int64_t bytes) noexcept = 0;
  /// Receiver, after `consume`: waits until the micro-batch's bytes have arrived. The wait counts as progress, and a
  /// failure elsewhere ends it by throwing `detail::interrupted`.
  virtual void arrive(int micro_batch) = 0;
  /// Discards the transfers in flight. Called while neither worker runs.
  virtual void reset() noexcept = 0;
};

/// Makes the emulations of links. The options of a training refer only to this type.
struct link_emulation {
  std::unique_ptr<link_delay> (*make)(worker_signals& wake_signals, int receiver, int micro_batches,
                                      std::int64_t bytes_per_second);
};

}  // namespace gpipe::detail
