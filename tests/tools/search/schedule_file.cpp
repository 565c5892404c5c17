#include <gpipe/tools/search/schedule_file.hpp>

#include <doctest/doctest.h>

#include <filesystem>
#include <string>

#include <gpipe/plan/schedule/zb_v.hpp>

using namespace gpipe;

namespace {

std::string file(const char* name) { return (std::filesystem::temp_directory_path() / name).string(); }

}  // namespace

TEST_CASE("a written schedule is read back") {
  const std::string path = file("gpipe_schedule_file.csv");
  write_schedule(path, zb_v{}, 4, 5);
  const schedule_table table = read_schedule(path);
  CHECK(table.name() == path);
  CHECK(schedule_text(table, 4, 5) == schedule_text(zb_v{}, 4, 5));
  const file_schedule mine(path);
  const plan_options o = mine.chosen_in({.stages = 1, .micro_batch_size = 8});
  CHECK((o.stages == 4 && o.micro_batches == 5 && o.micro_batch_size == 8));
  CHECK(schedule_text(o.chosen_schedule(), 4, 5) == schedule_text(zb_v{}, 4, 5));
  write_file(path, [](std::ostream& out) { out << "0F0,0B0\n1F0,1X0\n"; });
  CHECK_THROWS_WITH_AS(read_schedule(path), doctest::Contains("gpipe_schedule_file.csv:2: column 2 is '1X0'"), error);
  std::filesystem::remove(path);
}

TEST_CASE("a file that does not exist is an error with its name") {
  CHECK_THROWS_WITH_AS(read_schedule("/no/such/table.csv"),
                       doctest::Contains("/no/such/table.csv: opening the file failed: No such file"), error);
}
