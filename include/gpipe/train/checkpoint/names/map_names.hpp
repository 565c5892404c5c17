#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <gpipe/core/config.hpp>
#include <gpipe/core/error.hpp>
#include <gpipe/record/checkpoint/safetensors_set.hpp>
#include <gpipe/train/checkpoint/names/name_map.hpp>
#include <gpipe/train/checkpoint/names/stored_array.hpp>

namespace gpipe::detail {

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

/// The arrays of a model as a file stores them: with its names and layouts, one entry per tensor. `prefix` is one of
/// the map's. Throws if a rule is wrong, or if two arrays have one name.
std::vector<stored_array> in_file(const std::vector<stored_array>& arrays, const name_map& names,
                                  const std::string& prefix, file_layout layout = file_layout::pytorch);

/// The text that names the layout of a file in its metadata; no text if all its arrays have one order in both.
std::string layout_text(const std::vector<stored_array>& arrays, const name_map& names, file_layout layout);

/// The layout of a file: `asked`, or the layout in its metadata, or the one that the shapes of its tensors imply. A
/// checkpoint without it is of format 1, in gpipe's layout. If nothing decides it, `undecided` is the name of an array
/// whose elements may have either order, with the same shape in both; else it is empty.
file_layout layout_of(file_layout asked, const safetensors_set& set, const std::vector<found_array>& file,
                      const std::vector<stored_array>& arrays, const name_map& names, const std::string& prefix,
                      std::string& undecided);
[[noreturn]] void throw_undecided(const std::string& array, const std::string& file);

/// The prefix of the map that a load uses for a file with these arrays, and the one that a save writes.
std::string prefix_of(const std::vector<found_array>& file, const name_map& names);
std::string saved_prefix(const name_map& names);

/// Removes from a report the names that the file may have or lack by this map. `wanted` are the arrays matched.
void forgive_names(load_report& report, const std::vector<stored_array>& wanted, const name_map& names,
                   const std::string& prefix);

/// Equal for equal maps.
std::uint64_t hash_of(const name_map& names);

/// Appends to `stars` the part of the name that each star of the pattern matches. False if the name does not match.
bool find_stars(std::string_view pattern, std::string_view name, std::vector<std::string_view>& stars);

}  // namespace gpipe::detail

#if !GPIPE_COMPILED
#include <gpipe/train/checkpoint/names/map_names-inl.hpp>
#endif
