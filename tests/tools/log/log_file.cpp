// sanitizers: address

#include <gpipe/tools/log/log_file.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>
#include <system_error>

#include "support/checkpoints.hpp"

using namespace gpipe;
namespace detail = gpipe::detail;

namespace {

std::ptrdiff_t lines_of(const std::string& path) {
  const std::string text = checkpoints::content(path);
  return std::count(text.begin(), text.end(), '\n');
}

fit_progress step(int epoch, long number) {
  return {.epoch = epoch, .epochs = 2, .step = number, .steps = 4, .loss = 0.1, .rate = 1e-3};
}

}  // namespace

TEST_CASE("a line of a table, and of JSON") {
  fit_progress now = step(2, 3);
  now.samples_per_second = 1500;
  now.step_loss = std::numeric_limits<double>::infinity();
  now.norm = 2.5;
  CHECK(detail::log_head() ==
        "time,epoch,step,loss,step_loss,rate,norm,samples_per_second,waiting,held_out,held_out_accuracy\n");
  CHECK(detail::log_line(now, 1700000000.5, true) == "1700000000.500,2,7,0.1,inf,0.001,2.5,1500,0,,\n");
  CHECK(detail::log_line(now, 1700000000.5, false) ==
        "{\"time\":1700000000.500,\"epoch\":2,\"step\":7,\"loss\":0.1,\"rate\":0.001,\"norm\":2.5,"
        "\"samples_per_second\":1500,\"waiting\":0}\n");
  now.held_out = 0.25;
  now.held_out_accuracy = 0.75;
  CHECK(detail::log_line(now, 0, true) == "0.000,2,7,0.1,inf,0.001,2.5,1500,0,0.25,0.75\n");
}

TEST_CASE("a log begins anew, or goes on behind what is there") {
  const std::string path = "log_test.csv";
  std::ofstream(path) << "old\n";
  {
    log_file log(path);
    log(step(1, 1));
    log(step(1, 4));
    CHECK(lines_of(path) == 3);  // an epoch's end is flushed
    log(step(2, 1));
  }
  CHECK(lines_of(path) == 4);
  CHECK(checkpoints::content(path).starts_with("time,epoch"));
  { log_file(path, log_begin::append)(step(2, 2)); }
  CHECK(lines_of(path) == 5);
  std::remove(path.c_str());
  { log_file(path, log_begin::append)(step(2, 2)); }
  CHECK(lines_of(path) == 2);
  std::remove(path.c_str());
  { log_file("log_test.jsonl")(step(1, 1)); }
  CHECK(lines_of("log_test.jsonl") == 1);
  std::remove("log_test.jsonl");
}

TEST_CASE("half a line at the end, of a process that was killed, takes no line with it") {
  const std::string path = "log_half.csv";
  { log_file(path, log_begin::anew)(step(1, 4)); }
  const std::string whole = checkpoints::content(path);
  for (const std::size_t size : {std::size_t{1}, std::size_t{20}, std::size_t{9000}}) {
    std::ofstream(path, std::ios::binary) << whole << std::string(size, '#');
    { log_file(path, log_begin::append)(step(2, 4)); }
    CHECK(checkpoints::content(path).starts_with(whole));
    CHECK(lines_of(path) == 3);
    CHECK(checkpoints::content(path).find('#') == std::string::npos);
  }
  // A file without a whole line is none of ours: nothing of it is cut.
  std::ofstream(path, std::ios::binary) << "a note";
  { log_file(path, log_begin::append)(step(2, 4)); }
  CHECK(checkpoints::content(path).starts_with("a note"));
  std::remove(path.c_str());
}

TEST_CASE("a path that cannot be written is refused at the start") {
  CHECK_THROWS_WITH_AS(log_file("log_test.txt"),
                       "log_test.txt: is no name of a log; choose one that ends with .csv or .jsonl", error);
  CHECK_THROWS_WITH_AS(log_file("log_nowhere/run.csv"),
                       doctest::Contains("log_nowhere/run.csv: opening the file failed: No such file"), error);
}

TEST_CASE("a full disk ends the log, and nothing else") {
  if (!std::filesystem::exists("/dev/full")) return;
  std::error_code unknown;
  std::filesystem::create_symlink("/dev/full", "log_full.jsonl", unknown);
  {
    log_file log("log_full.jsonl");
    CHECK_FALSE(log.ended());
    log(step(1, 1));
    log(step(1, 4));  // an epoch's end, so it is written
    CHECK(log.ended());
    log(step(2, 1));
    CHECK(log.ended());
  }
  std::filesystem::remove("log_full.jsonl");
}
