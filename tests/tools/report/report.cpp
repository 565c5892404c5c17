#include <gpipe/tools/report/report.hpp>

#include <doctest/doctest.h>

#include <sstream>
#include <string>
#include <vector>

using gpipe::action_kind;
using gpipe::stage_report;

namespace {

std::string report_of(const std::vector<stage_report>& stages, unsigned cores = 0, std::int64_t predicted_ps = 0) {
  std::ostringstream out;
  gpipe::write_report(out, stages, cores, predicted_ps);
  return out.str();
}

std::vector<stage_report> two() {
  std::vector<stage_report> stages(2);
  stages[0] = {.stage = 0, .first = 0, .last = 12, .predicted_share = 3, .bytes = 13'107'200, .parameters = 1'060'000};
  stages[1] = {.stage = 1, .first = 12, .last = 13, .predicted_share = 1, .bytes = 1024, .parameters = 10};
  stages[0].busy(action_kind::forward) = 20'000'000;
  stages[0].busy(action_kind::recompute) = 10'000'000;
  stages[0].busy(action_kind::backward_input) = 15'000'000;
  stages[0].busy(action_kind::backward_parameters) = 15'000'000;
  stages[0].wait_ns = 20'000'000;
  stages[1].busy(action_kind::forward) = 10'000'000;
  stages[1].busy(action_kind::backward) = 30'000'000;
  stages[1].busy(action_kind::reduce) = 2'000'000;
  stages[1].busy(action_kind::update) = 3'000'000;
  stages[1].wait_ns = 40'000'000;
  stages[1].worker = 1;
  return stages;
}

}  // namespace

TEST_CASE("a table with the prediction and the measurement") {
  CHECK(report_of(two()) ==
        "stage  layers  parameters    memory  predicted  measured    idle  forward  recompute  backward  update\n"
        "    0    0-11      1.06 M  12.5 MiB     75.0 %    57.1 %  25.0 %  20.0 ms    10.0 ms   30.0 ms  0.0 ms\n"
        "    1      12          10     1 KiB     25.0 %    42.9 %  47.1 %  10.0 ms     0.0 ms   30.0 ms  5.0 ms\n"
        "  all              1.06 M  12.5 MiB\n"
        "stage 0 is the slowest: 1.14 of the mean\n");
}

TEST_CASE("each replica has its rows, and the model's parameters count once") {
  auto stages = two();
  for (stage_report s : two()) {
    s.replica = 1, s.worker += 2;
    s.busy(action_kind::forward) *= 2;
    stages.push_back(s);
  }
  CHECK(report_of(stages) ==
        "replica  stage  layers  parameters    memory  predicted  measured    idle  forward  recompute  backward  "
        "update\n"
        "      0      0    0-11      1.06 M  12.5 MiB     37.5 %    25.0 %  25.0 %  20.0 ms    10.0 ms   30.0 ms  0.0 "
        "ms\n"
        "      0      1      12          10     1 KiB     12.5 %    18.8 %  47.1 %  10.0 ms     0.0 ms   30.0 ms  5.0 "
        "ms\n"
        "      1      0    0-11      1.06 M  12.5 MiB     37.5 %    33.3 %  20.0 %  40.0 ms    10.0 ms   30.0 ms  0.0 "
        "ms\n"
        "      1      1      12          10     1 KiB     12.5 %    22.9 %  42.1 %  20.0 ms     0.0 ms   30.0 ms  5.0 "
        "ms\n"
        "           all              1.06 M    25 MiB\n"
        "replica 1, stage 0 is the slowest: 1.33 of the mean\n");
}

TEST_CASE("before a measurement its columns are empty") {
  std::vector<stage_report> stages(1);
  stages[0] = {.stage = 0, .first = 0, .last = 3, .predicted_share = 1, .bytes = 64, .parameters = 3};
  CHECK(report_of(stages) ==
        "stage  layers  parameters  memory  predicted  measured  idle  forward  recompute  backward  update\n"
        "    0     0-2           3    64 B    100.0 %         -     -        -          -         -       -\n");
}

TEST_CASE("a step's time is printed beside the predicted one, with its breakdown") {
  auto stages = two();
  for (auto& s : stages) s.steps = 4, s.step_ns = 88'000'000;
  const std::string text = report_of(stages, 0, 18'500'000'000);
  CHECK(text.find("a step took 22 ms, predicted 18.5 ms;\ncompute 51.1 %, recompute 5.7 %, ") != std::string::npos);
  CHECK(report_of(stages).find("a step took 22 ms;\ncompute 51.1 %") != std::string::npos);
}

TEST_CASE("workers that share cores are noted") {
  CHECK(report_of(two(), 1).find("note: 2 workers share 1 core:") != std::string::npos);
  auto one = two();
  one[1].worker = 0;
  CHECK(report_of(one, 1).find("note") == std::string::npos);
  CHECK(report_of(two(), 2).find("note") == std::string::npos);
  CHECK(report_of(two(), 0).find("note") == std::string::npos);
}

TEST_CASE("workers that are bound to fewer cores are one line, with the options that cure it") {
  auto stages = two();
  for (stage_report& s : stages) s.process_workers = 2, s.bound_to = 2;
  CHECK(gpipe::bound_note(stages) == "");
  stages[1].bound_to = 1;
  const std::string note =
      "note: 2 workers share 1 core, to which their process is bound; let it have more: mpirun by --bind-to none or "
      "--map-by slot:PE=2, without mpirun see taskset -p\n";
  CHECK(gpipe::bound_note(stages) == note);
  const std::string report = report_of(stages, 1);
  CHECK(report.substr(report.size() - note.size()) == note);
  CHECK(report.find("note: ") == report.size() - note.size());
  stages[0].bound_to = stages[1].bound_to = 0;
  CHECK(gpipe::bound_note(stages) == "");
  stages[1].host_workers = stages[1].host_processes = 3, stages[1].host_bound_to = 3;
  CHECK(gpipe::bound_note(stages) == "");
  stages[1].host_bound_to = 2;
  CHECK(gpipe::bound_note(stages) ==
        "note: 3 processes of a host share 2 cores, to which they are bound; let mpirun give them more: --bind-to "
        "none, or --map-by core\n");
  stages[1].host_workers = 6, stages[1].host_bound_to = 6;
  CHECK(gpipe::bound_note(stages) == "");
  stages[1].host_bound_to = 5;
  CHECK(gpipe::bound_note(stages).starts_with("note: 3 processes of a host, with 6 workers, share 5 cores, to which "));
}

TEST_CASE("the report says how many cores bound workers have, and which memory stayed far away") {
  auto stages = two();
  CHECK(report_of(stages).find("bound") == std::string::npos);
  const auto ends_with = [&](const std::string& line) {
    CHECK(gpipe::own_cores_note(stages) == line);
    CHECK(report_of(stages).ends_with(line));
  };
  stages[0].own_cores = stages[1].own_cores = 1;
  ends_with("workers are bound to 1 core each\n");
  stages[0].own_cores = 3;
  ends_with("workers are bound to 1 to 3 cores each\n");
  stages[1].far_memory = true;
  ends_with("workers are bound to 1 to 3 cores each; the system refused to move the memory of 1 stage near them\n");
}
