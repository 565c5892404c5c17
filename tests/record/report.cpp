#include <gpipe/record/report.hpp>

#include <doctest/doctest.h>

#include <sstream>
#include <string>
#include <vector>

using gpipe::act;
using gpipe::stage_report;

namespace {

std::string told(const std::vector<stage_report>& stages, unsigned cores = 0) {
  std::ostringstream out;
  gpipe::write_report(out, stages, cores);
  return out.str();
}

std::vector<stage_report> two() {
  std::vector<stage_report> stages(2);
  stages[0] = {.stage = 0, .first = 0, .last = 12, .predicted_share = 3, .bytes = 13'107'200, .parameters = 1'060'000};
  stages[1] = {.stage = 1, .first = 12, .last = 13, .predicted_share = 1, .bytes = 1024, .parameters = 10};
  stages[0].busy(act::forward) = 20'000'000;
  stages[0].busy(act::recompute) = 10'000'000;
  stages[0].busy(act::backward_input) = 15'000'000;
  stages[0].busy(act::backward_parameters) = 15'000'000;
  stages[0].wait_ns = 20'000'000;
  stages[1].busy(act::forward) = 10'000'000;
  stages[1].busy(act::backward) = 30'000'000;
  stages[1].wait_ns = 40'000'000;
  return stages;
}

}  // namespace

TEST_CASE("a table with what was predicted and what was measured") {
  CHECK(told(two()) ==
        "stage  slots  parameters    memory  predicted  measured    idle  forward  recompute  backward\n"
        "    0   0-11      1.06 M  12.5 MiB     75.0 %    60.0 %  25.0 %  20.0 ms    10.0 ms   30.0 ms\n"
        "    1     12          10     1 KiB     25.0 %    40.0 %  50.0 %  10.0 ms     0.0 ms   30.0 ms\n"
        "  all             1.06 M  12.5 MiB\n"
        "stage 0 is the slowest: 1.20 of the mean\n");
}

TEST_CASE("before anything was measured there is nothing to tell of it") {
  std::vector<stage_report> stages(1);
  stages[0] = {.stage = 0, .first = 0, .last = 3, .predicted_share = 1, .bytes = 64, .parameters = 3};
  CHECK(told(stages) ==
        "stage  slots  parameters  memory  predicted  measured  idle  forward  recompute  backward\n"
        "    0    0-2           3    64 B    100.0 %         -     -        -          -         -\n");
}

TEST_CASE("stages that share cores are told") {
  CHECK(told(two(), 1).find("note: 2 stages share 1 core,") != std::string::npos);
  CHECK(told(two(), 2).find("note") == std::string::npos);
  CHECK(told(two(), 0).find("note") == std::string::npos);
}
