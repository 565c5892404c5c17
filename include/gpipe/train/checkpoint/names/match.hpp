#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <gpipe/core/build_mode.hpp>
#include <gpipe/train/checkpoint/names/load_report.hpp>
#include <gpipe/train/checkpoint/names/stored_array.hpp>

namespace gpipe {

namespace detail {

/// An array of a file.
struct found_array {
  std::string_view name;
  std::span<const std::uint64_t> shape;
};

/// `found[i]`: the position in the file of the i-th wanted array; -1: it does not fit.
struct array_match {
  std::vector<std::ptrdiff_t> found;
  load_report report;

  bool exact() const { return report.missing.empty() && report.unexpected.empty() && report.misshaped.empty(); }
};

array_match match_arrays(const std::vector<stored_array>& wanted, const std::vector<found_array>& file);

/// Removes the counts of batches that PyTorch's batch norm stores from a report: no value of gpipe depends on them.
void forgive_counters(load_report& report);

/// The error of a file that does not fit: at most ten names of each kind.
[[noreturn]] void throw_misfit(const load_report& report, const std::string& file);

}  // namespace detail

}  // namespace gpipe

#if !GPIPE_COMPILED
#include <gpipe/train/checkpoint/names/match-inl.hpp>
#endif
