#pragma once

// The command line of `plan check`.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "../../options.hpp"

namespace example {

using namespace gpipe;

struct check_settings {
  std::string table, costs;
  std::int64_t limit = INT64_MAX;  ///< bytes of a rank
  bool plain = false;

  bool read(int count, char** arguments) {
    std::vector<char*> others{arguments[0]};  // the table has no name before it
    for (int i = 1; i < count; ++i) {
      const bool option = std::string_view(arguments[i]).starts_with("--");
      if (!option && table.empty() && (i == 1 || !takes_value(arguments[i - 1]))) table = arguments[i];
      else others.push_back(arguments[i]);
    }
    if (!options("plan check FILE.csv: checks a table of a pipeline schedule as PyTorch writes and reads it: a line a\n"
                 "rank, with cells such as 0F0, 0B0, 0I0 and 0W0: the stage, forward, backward or its two parts, and\n"
                 "the micro-batch. Cells that move data are not looked at. Without --costs F, I and W take 1, B 2.")
             .text("--costs", "FILE", costs,
                   "costs of the stages: a table as `plan --costs` takes it, with a\n"
                   "                            line a stage; I and W take half of backward_ns each")
             .bytes("--memory-limit", limit, "limit of every rank, such as 16GiB, with --costs")
             .flag("--plain", plain, "print for programs: a fact a line")
             .read(static_cast<int>(others.size()), others.data()))
      return false;
    if (table.empty()) throw error("the table is missing", "write plan check FILE.csv");
    if (limit != INT64_MAX && costs.empty())
      throw error("option --memory-limit does nothing without --costs", "give the bytes of the stages with --costs");
    return true;
  }

 private:
  static bool takes_value(std::string_view option) { return option == "--costs" || option == "--memory-limit"; }
};

}  // namespace example
