#pragma once

// The schedules without a plan, as lines below a chart.

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "combination.hpp"

namespace example {

using namespace gpipe;

/// Lines of at most `letters` letters, broken at commas. Schedules that lack a plan for the same numbers of
/// micro-batches stand together: "no plan: zb-v, v-half with M = 4, 16".
inline std::vector<std::string> lines_without_plan(const std::vector<const swept*>& chart,
                                                   const std::vector<schedule_kind>& orders, std::size_t letters) {
  std::vector<std::pair<std::string, std::string>> lacks;  // numbers, schedules
  for (const schedule_kind kind : orders) {
    std::string without;
    bool has_plan = false;
    for (const swept* const it : chart) {
      if (it->of.schedule != kind) continue;
      has_plan = has_plan || it->planned();
      if (!it->planned()) without += (without.empty() ? "" : ", ") + std::to_string(it->of.micro_batches);
    }
    if (without.empty()) continue;
    const std::string numbers = has_plan ? without : "", name = name_in(schedules, kind);
    const auto known = std::find_if(lacks.begin(), lacks.end(), [&](const auto& it) { return it.first == numbers; });
    if (known == lacks.end()) lacks.emplace_back(numbers, name);
    else known->second += ", " + name;
  }
  std::vector<std::string> lines;
  for (const auto& [numbers, names] : lacks) {
    std::string rest = "no plan: " + names + (numbers.empty() ? "" : " with M = " + numbers);
    while (rest.size() > letters) {
      const std::size_t comma = rest.rfind(", ", letters);
      if (comma == std::string::npos) break;
      lines.push_back(rest.substr(0, comma + 1));
      rest = rest.substr(comma + 2);
    }
    lines.push_back(rest);
  }
  return lines;
}

}  // namespace example
