#pragma once

#include <fstream>
#include <iterator>
#include <string>

#include <gpipe/plan/timetable/schedule_table.hpp>
#include <gpipe/record/file.hpp>

namespace gpipe {

/// Reads a schedule from a file in PyTorch's format (see `schedule_table`). Throws `error`, with row and column, if the
/// file does not exist or its table is wrong.
///
///     const schedule_table table = read_schedule("mine.csv");
///     const custom_schedule mine = custom_schedule_from(table);
///     trainer<net> training{plan_options{.stages = table.stages(), .micro_batches = table.micro_batches(),
///                                        .schedule = schedule_kind::custom, .custom_schedule = &mine}};
GPIPE_COLD inline schedule_table read_schedule(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  if (!in.is_open() || in.bad())
    throw error("the file cannot be read", "give a file with the rows of a schedule", {.file = path});
  return {path, text};
}

/// Writes a schedule's table in the same format.
template <scheduler Schedule>
GPIPE_COLD void write_schedule(const std::string& path, const Schedule& schedule, int stages, int micro_batches) {
  const std::string text = schedule_text(schedule, stages, micro_batches);
  write_file(path, [&text](std::ostream& out) { out << text; });
}

}  // namespace gpipe
