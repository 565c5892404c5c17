#pragma once

// The files that a program writes.

#include <algorithm>
#include <filesystem>
#include <ostream>
#include <string>
#include <system_error>
#include <vector>

#include <gpipe/core/error.hpp>
#include <gpipe/core/text/quantity.hpp>
#include <gpipe/make_plan.hpp>
#include <gpipe/plan.hpp>
#include <gpipe/record/file/write_file.hpp>
#include <gpipe/tools/report/write_profile.hpp>

namespace example {

/// Checks before the training that every output can be written, each to its own file and none over the data. Makes the
/// folder of checkpoints, unless its path is empty.
inline void require_outputs(const std::string& data, std::vector<std::string> files, const std::string& checkpoints) {
  std::erase(files, "");
  for (auto file = files.begin(); file != files.end(); ++file) {
    const auto same = [&](const std::string& other) { return gpipe::is_same_file(*file, other); };
    if (same(data)) throw gpipe::error("an output has the file of the data", "give it its own file", {.file = *file});
    if (std::any_of(files.begin(), file, same))
      throw gpipe::error("two outputs have the same file", "give each output its own file", {.file = *file});
  }
  for (const std::string& file : files) gpipe::require_writable(file);
  if (checkpoints.empty()) return;
  std::error_code failed;
  std::filesystem::create_directory(checkpoints, failed);
  if (failed)
    throw gpipe::error("option --save: the folder cannot be made: " + failed.message(),
                       "choose a path in an existing folder with write permission", {.file = checkpoints});
  gpipe::require_writable(checkpoints + "/writable");  // makes and removes it
}

/// Writes the measured time of each layer, and prints the predicted step time with it.
inline void write_costs(std::ostream& out, const std::string& path, const gpipe::network& of,
                        const gpipe::step_plan& now, const gpipe::measured_profile& costs) {
  gpipe::write_profile(path, costs.view());
  gpipe::plan_options by_costs = now.options;
  by_costs.profile = costs.view();
  const auto predicted = [&](const std::vector<int>& cut) {
    return gpipe::detail::time_text(gpipe::step_time(of, gpipe::make_plan(of, by_costs, cut)));
  };
  const std::vector<int> cut(now.first.begin() + 1, now.first.end() - 1);
  out << "predicted step time by these measurements: " << predicted(cut) << ", and after a new cut by them "
      << predicted({}) << '\n';
}

}  // namespace example
