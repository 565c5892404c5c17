#pragma once

// One combination of a sweep, its plan, and its line of the CSV file.

#include <cstddef>
#include <cstdint>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "../choice.hpp"
#include "../text.hpp"

namespace example {

using namespace gpipe;

struct combination {
  int stages = 1, micro_batches = 1;
  schedule_kind schedule = schedule_kind::fill_drain;
  recompute_mode recompute = recompute_mode::as_needed;
  std::int64_t limit = INT64_MAX;  // bytes of a device; INT64_MAX: none
  std::int64_t link = 0;           // bytes in a second; 0: transfers take no time
};

/// The plan of a combination, or why there is none. Times in nanoseconds.
struct swept {
  combination of;
  int micro_batch_size = 0;  // 0: a table's micro-batches have no size
  int devices = 0;           // 0: refused
  std::int64_t step = 0, bound = 0, max_bytes = 0;
  double idle = 0;
  std::vector<int> first;  // the first layer of each stage
  std::string refused;     // empty if there is a plan

  bool planned() const { return refused.empty(); }
  /// Whether a chart of these stages (0: any), recompute, limit and link shows it.
  bool is_in(const combination& chart) const {
    return (chart.stages == 0 || of.stages == chart.stages) && of.recompute == chart.recompute &&
           of.limit == chart.limit && of.link == chart.link;
  }
};

template <class List, class Value>
std::string name_in(const List& list, Value value) {
  for (const auto& [word, of] : list)
    if (of == value) return word;
  return "";
}

/// A field of a CSV file that may have commas and quotes.
inline std::string csv_text(const std::string& words) {
  std::string quoted = "\"";
  for (const char c : words) quoted += c == '"' ? "\"\"" : std::string(1, c);
  return quoted + '"';
}

/// A header line, and a line a combination. Fields without a value are empty: no limit, a free link, a refused plan
/// (whose lower bound is the one without a limit).
inline void write_csv(std::ostream& out, const std::vector<swept>& all) {
  out << "stages,devices,micro_batches,micro_batch_size,schedule,recompute,memory_limit,link,step_ns,lower_bound_ns,"
         "idle,largest_device_bytes,first_layers,refused\n";
  const auto unless = [](auto value, decltype(value) none) { return value == none ? "" : std::to_string(value); };
  for (const swept& it : all) {
    const combination& of = it.of;
    out << of.stages << ',' << unless(it.devices, 0) << ',' << of.micro_batches << ',' << unless(it.micro_batch_size, 0)
        << ',' << name_in(schedules, of.schedule) << ',' << name_in(recomputes, of.recompute) << ','
        << unless(of.limit, INT64_MAX) << ',' << unless(of.link, std::int64_t{0}) << ',';
    if (!it.planned()) {
      out << ',' << unless(it.bound, std::int64_t{0}) << ",,,," << csv_text(it.refused) << '\n';
      continue;
    }
    out << it.step << ',' << it.bound << ',' << fixed(it.idle, 4) << ',' << it.max_bytes << ',';
    for (std::size_t s = 0; s < it.first.size(); ++s) out << (s > 0 ? " " : "") << it.first[s];
    out << ",\n";
  }
}

}  // namespace example
