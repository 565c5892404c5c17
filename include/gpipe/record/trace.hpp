#pragma once

#include <gpipe/core/config.hpp>
#include <gpipe/plan/schedule/contract/action.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace gpipe {

/// One action of a worker, with its begin and end. A field that does not apply is -1.
struct trace_event {
  std::int64_t begin_ns = 0, end_ns = 0;
  action_kind kind = action_kind::idle;
  int stage = -1;
  int micro_batch = -1;
  int replica = 0;
  int worker = -1;                  ///< in its replica
  int step = -1;                    ///< of the optimizer; -1: an evaluation, a prediction or a measurement
  std::int64_t waited_ns = 0;       ///< of the action's time, mostly at its begin; a receive only waits
  std::int64_t not_running_ns = 0;  ///< in which the worker's thread was on no core, though it did not wait
};

/// One worker's events. Memory is allocated and touched at construction; `record` is a comparison and a store, without
/// a lock. A full recorder keeps its events and counts further ones. Recorders of several workers share no cache line.
class alignas(detail::alignment) recorder {
 public:
  explicit recorder(std::size_t capacity, std::string name = {}) : events_(capacity), name_(std::move(name)) {}

  void record(const trace_event& event) noexcept {
    if (size_ == events_.size()) {
      ++dropped_;
    } else {
      events_[size_++] = event;
    }
  }

  /// Makes several recorders equal: `broadcast(bytes, size)` copies bytes from one of them to all.
  template <class Broadcast>
  GPIPE_COLD void share(Broadcast&& broadcast) {
    broadcast(&size_, sizeof size_);
    broadcast(&dropped_, sizeof dropped_);
    broadcast(events_.data(), size_ * sizeof(trace_event));
  }

  /// Drops all events and keeps the memory.
  void clear() noexcept { size_ = dropped_ = 0; }

  std::span<const trace_event> events() const noexcept { return {events_.data(), size_}; }
  std::size_t dropped() const noexcept { return dropped_; }
  std::size_t capacity() const noexcept { return events_.size(); }
  const std::string& name() const noexcept { return name_; }

 private:
  std::vector<trace_event> events_;
  std::size_t size_ = 0, dropped_ = 0;
  std::string name_;
};

}  // namespace gpipe
