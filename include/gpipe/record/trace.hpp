#pragma once

#include <gpipe/core/config.hpp>
#include <gpipe/plan/schedule/contract/action.hpp>
#include <gpipe/record/escape.hpp>
#include <gpipe/record/file.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <ostream>
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
  int step = -1;                    ///< of the optimizer; -1: of an evaluation, a prediction or a measurement
  std::int64_t waited_ns = 0;       ///< of the action's time, mostly at its begin; a receive only waits
  std::int64_t not_running_ns = 0;  ///< in which the worker's thread was on no core, though it did not wait
};

namespace detail {

/// The clock of events, in nanoseconds since a fixed moment.
inline std::int64_t now_ns() noexcept {
  using namespace std::chrono;
  return duration_cast<nanoseconds>(steady_clock::now().time_since_epoch()).count();
}

}  // namespace detail

/// One worker's events. Memory is allocated and touched at construction; `record` is a comparison and a store, without
/// a lock. A full recorder keeps its events and counts the rest. Recorders of several workers share no cache line.
class alignas(detail::alignment) recorder {
 public:
  explicit recorder(std::size_t capacity, std::string name = {}) : events_(capacity), name_(std::move(name)) {}

  void record(const trace_event& it) noexcept {
    if (size_ == events_.size()) {
      ++dropped_;
    } else {
      events_[size_++] = it;
    }
  }

  /// Makes the events of several recorders equal: `broadcast(bytes, size)` copies those of one of them to all.
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

namespace detail {

/// The recorder's name, by default "worker 1, stages 1 and 5", and the number of its dropped events.
GPIPE_COLD inline std::string row_name(const recorder& it, std::size_t worker) {
  std::string name = it.name();
  if (name.empty()) {
    std::vector<int> stages;
    for (const trace_event& e : it.events())
      if (e.stage >= 0 && std::find(stages.begin(), stages.end(), e.stage) == stages.end()) stages.push_back(e.stage);
    std::sort(stages.begin(), stages.end());
    name = "worker " + std::to_string(worker);
    for (std::size_t i = 0; i < stages.size(); ++i)
      name += (i > 0 ? " and " : stages.size() > 1 ? ", stages " : ", stage ") + std::to_string(stages[i]);
  }
  return it.dropped() == 0 ? name : name + " (events dropped: " + std::to_string(it.dropped()) + ")";
}

/// Chrome counts in microseconds; these have three decimals.
GPIPE_COLD inline std::string microseconds(std::int64_t ns) {
  const std::string rest = std::to_string(ns % 1000);
  return std::to_string(ns / 1000) + "." + std::string(3 - rest.size(), '0') + rest;
}

}  // namespace detail

/// Writes all workers' events in Chrome's trace format, for Perfetto (ui.perfetto.dev): one row per worker, times
/// relative to the first event.
GPIPE_COLD inline void write_trace(std::ostream& out, std::span<const recorder> workers) {
  std::int64_t start = INT64_MAX;
  std::size_t dropped = 0;
  for (const recorder& worker : workers) {
    dropped += worker.dropped();
    for (const trace_event& e : worker.events()) start = (std::min)(start, e.begin_ns);
  }
  out << "{\"displayTimeUnit\":\"ms\",\"otherData\":{\"dropped_events\":" << std::to_string(dropped)
      << "},\"traceEvents\":[\n"
      << R"({"name":"process_name","ph":"M","pid":0,"args":{"name":"gpipe"}})";
  for (std::size_t w = 0; w < workers.size(); ++w) {
    const std::string row = R"("pid":0,"tid":)" + std::to_string(w) + ',';
    out << ",\n{\"name\":\"thread_name\",\"ph\":\"M\"," << row << "\"args\":{\"name\":"
        << detail::json(detail::row_name(workers[w], w)) << "}}"
        << ",\n{\"name\":\"thread_sort_index\",\"ph\":\"M\"," << row << "\"args\":{\"sort_index\":" << std::to_string(w)
        << "}}";
    for (const trace_event& e : workers[w].events()) {
      out << ",\n{\"name\":\"" << name_of(e.kind);
      if (e.micro_batch >= 0) out << ' ' << std::to_string(e.micro_batch);
      out << R"(","cat":")" << name_of(e.kind) << R"(","ph":"X",)" << row
          << "\"ts\":" << detail::microseconds(e.begin_ns - start)
          << ",\"dur\":" << detail::microseconds((std::max)(e.end_ns, e.begin_ns) - e.begin_ns)
          << ",\"args\":{\"stage\":" << std::to_string(e.stage);
      if (e.replica > 0) out << ",\"replica\":" << std::to_string(e.replica);
      if (e.micro_batch >= 0) out << ",\"micro_batch\":" << std::to_string(e.micro_batch);
      if (e.step >= 0) out << ",\"step\":" << std::to_string(e.step);
      if (e.waited_ns > 0) out << ",\"waited_us\":" << detail::microseconds(e.waited_ns);
      if (e.not_running_ns > 0) out << ",\"not_running_us\":" << detail::microseconds(e.not_running_ns);
      out << "}}";
    }
  }
  out << "\n]}\n";
}

/// Throws `gpipe::error` with the path unless the file was written completely.
inline void write_trace(const std::string& path, std::span<const recorder> workers) {
  write_file(path, [&](std::ostream& out) { write_trace(out, workers); });
}

}  // namespace gpipe
