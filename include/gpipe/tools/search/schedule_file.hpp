#pragma once

#include <ostream>
#include <string>

#include <gpipe/plan/options/options.hpp>
#include <gpipe/plan/options/table_schedule.hpp>
#include <gpipe/plan/timetable/schedule_table.hpp>
#include <gpipe/record/file/read_file.hpp>
#include <gpipe/record/file/write_file.hpp>

namespace gpipe {

/// Reads a schedule from a file in PyTorch's format (see `schedule_table`). Throws `error`, with row and column, if the
/// file cannot be read or its table is wrong.
GPIPE_COLD inline schedule_table read_schedule(const std::string& path) { return {path, read_file(path)}; }

/// A schedule from a file, for plans. It must outlive them.
///
///     const file_schedule schedule("schedule.csv");
///     trainer<net> training{schedule.chosen_in({.micro_batch_size = 8})};
class file_schedule : public table_schedule {
 public:
  GPIPE_COLD explicit file_schedule(const std::string& path) : table_schedule(read_schedule(path)) {}
};

/// Writes a schedule's table in the same format.
template <scheduler Schedule>
GPIPE_COLD void write_schedule(const std::string& path, const Schedule& schedule, int stages, int micro_batches) {
  const std::string text = schedule_text(schedule, stages, micro_batches);
  write_file(path, [&text](std::ostream& out) { out << text; });
}

}  // namespace gpipe
