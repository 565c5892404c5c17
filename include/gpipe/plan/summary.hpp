#pragma once

#include <string>
#include <vector>

#include <gpipe/core/quantity.hpp>
#include <gpipe/core/table.hpp>
#include <gpipe/plan/run_plan.hpp>

namespace gpipe {

/// A plan in words, before anything runs: what each stage holds, its share of the predicted time, its parameters and
/// its memory; then the bubble.
///
///     stage  slots  from         to      share  parameters    memory
///         0   0-24  linear<64>   add    25.1 %     133.2 k  2.02 MiB
GPIPE_ONCE inline std::string describe(const network& net, const run_plan& plan) {
  std::vector<std::vector<std::string>> rows{{"stage", "slots", "from", "to", "share", "parameters", "memory"}};
  for (int s = 0; s < plan.stages(); ++s) {
    const int first = plan.cut().first[s], last = plan.cut().first[s + 1];
    std::size_t parameters = 0;
    for (int l = first; l < last; ++l) parameters += net.row_of(l).parameter_elements();
    rows.push_back({std::to_string(s),
                    last - first == 1 ? std::to_string(first) : std::to_string(first) + "-" + std::to_string(last - 1),
                    std::string(net.row_of(first).name), std::string(net.row_of(last - 1).name),
                    detail::percent(plan.share(s), 1), detail::counted(parameters),
                    detail::sized(static_cast<std::uint64_t>(plan.memory[static_cast<std::size_t>(s)].total()))});
  }
  const auto& o = plan.options;
  const double bubble = with_schedule(
      o.schedule, [&](auto schedule) { return timetable(schedule, o.stages, o.micro_batches).bubble(); });
  return detail::table(rows) + detail::phrase({o.micro_batches, " micro-batches of at most ", o.micro_batch_size,
                                               " samples, bubble ", detail::percent(bubble, 1), "\n"});
}

}  // namespace gpipe
