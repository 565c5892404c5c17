#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <gpipe/core/text/quoted.hpp>
#include <gpipe/train/checkpoint/names/match.hpp>

namespace gpipe {

namespace detail {

GPIPE_COLD inline std::string shape_text(std::span<const std::uint64_t> extents) {
  std::string text;
  for (const std::uint64_t extent : extents) text.append(text.empty() ? "" : " x ").append(std::to_string(extent));
  return text.empty() ? "a single number" : text;
}

// change: the array order in a file
GPIPE_COLD GPIPE_INLINE array_match match_arrays(const std::vector<stored_array>& wanted,
                                                 const std::vector<found_array>& file) {
  std::map<std::string_view, std::size_t> locations;
  for (std::size_t i = 0; i < file.size(); ++i) locations.emplace(file[i].name, i);
  array_match match;
  for (const stored_array& want : wanted) {
    const auto location = locations.find(want.name);
    match.found.push_back(-1);
    if (location == locations.end()) {
      match.report.missing.push_back(want.name);
      continue;
    }
    const std::span<const std::uint64_t> shape = file[location->second].shape;
    const std::vector<std::uint64_t> extents(want.extents.extents, want.extents.extents + want.extents.rank);
    if (!std::equal(shape.begin(), shape.end(), extents.begin(), extents.end())) {
      match.report.misshaped.push_back(
          concat({want.name, " (file ", shape_text(shape), ", model ", shape_text(extents), ")"}));
    } else {
      match.found.back() = static_cast<std::ptrdiff_t>(location->second);
      match.report.loaded.push_back(want.name);
    }
    locations.erase(location);
  }
  for (const found_array& array : file)
    if (locations.contains(array.name)) match.report.unexpected.emplace_back(array.name);
  return match;
}

GPIPE_COLD GPIPE_INLINE void forgive_counters(load_report& report) {
  std::erase_if(report.unexpected, [](const std::string& name) {
    return name == "num_batches_tracked" || name.ends_with(".num_batches_tracked");
  });
}

GPIPE_COLD GPIPE_INLINE void throw_misfit(const load_report& report, const std::string& file) {
  constexpr std::size_t max = 10;
  std::string wrong;
  const auto is_plain = [](const std::string& name) {  // a file's may have any bytes
    return name.size() <= 200 && std::all_of(name.begin(), name.end(), [](char c) { return c >= ' ' && c <= '~'; });
  };
  const auto list = [&](const char* problem, const std::vector<std::string>& names) {
    if (names.empty()) return;
    wrong.append(wrong.empty() ? "the file does not fit the model: " : "; ");
    wrong.append(concat({names.size(), " ", problem, ": "}));
    for (std::size_t i = 0; i < names.size() && i < max; ++i)
      wrong.append(i > 0 ? ", " : "").append(is_plain(names[i]) ? names[i] : detail::quoted(names[i]));
    if (names.size() > max) wrong += ", ...";
  };
  list("missing", report.missing);
  list("unexpected", report.unexpected);
  list("misshaped", report.misshaped);
  throw error(wrong, "load a file of this model, or take what fits with load_mode::partial", {.file = file});
}

}  // namespace detail

}  // namespace gpipe
