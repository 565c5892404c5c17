#pragma once

#include <gpipe/core/config.hpp>
#include <gpipe/plan/schedule/contract/action.hpp>
#include <gpipe/record/file/write_file.hpp>
#include <gpipe/record/trace.hpp>
#include <gpipe/tools/drawing/escape.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <ostream>
#include <span>
#include <string>
#include <vector>

namespace gpipe {

namespace detail {

/// The recorder's name, by default "worker 1, stages 1 and 5", and the number of its dropped events.
GPIPE_COLD inline std::string row_name(const recorder& source, std::size_t worker) {
  std::string name = source.name();
  if (name.empty()) {
    std::vector<int> stages;
    for (const trace_event& e : source.events())
      if (e.stage >= 0 && std::find(stages.begin(), stages.end(), e.stage) == stages.end()) stages.push_back(e.stage);
    std::sort(stages.begin(), stages.end());
    name = "worker " + std::to_string(worker);
    for (std::size_t i = 0; i < stages.size(); ++i)
      name += (i > 0 ? " and " : stages.size() > 1 ? ", stages " : ", stage ") + std::to_string(stages[i]);
  }
  return source.dropped() == 0 ? name : name + " (events dropped: " + std::to_string(source.dropped()) + ")";
}

/// Chrome counts in microseconds; these have three decimals.
GPIPE_COLD inline std::string microseconds(std::int64_t ns) {
  const std::string decimals = std::to_string(ns % 1000);
  return std::to_string(ns / 1000) + "." + std::string(3 - decimals.size(), '0') + decimals;
}

}  // namespace detail

// change: the trace format
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
    out << ",\n{\"name\":\"thread_name\",\"ph\":\"M\"," << row
        << "\"args\":{\"name\":" << detail::json(detail::row_name(workers[w], w)) << "}}"
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
