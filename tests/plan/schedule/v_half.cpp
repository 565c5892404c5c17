#include <gpipe/plan/schedule/v_half.hpp>

#include <gpipe/plan/program/print.hpp>
#include <gpipe/plan/program/simulate.hpp>
#include <gpipe/plan/timetable/timetable.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "support/schedules.hpp"

using namespace gpipe;

static_assert(v_half::worker_of(8, 1) == 1 && v_half::worker_of(8, 6) == 1 && v_half::worker_of(8, 7) == 0);
static_assert(v_half::admits(2, 1) && !v_half::admits(1, 1) && !v_half::admits(5, 4) && !v_half::admits(4, 0));

TEST_CASE("the table of V-Half, and the drawing") {
  CHECK(describe(timetable(v_half{}, 4, 2)) ==
        "tick      0    1    2    3    4    5    6    7    8    9    10   11   12   13   14   15   16   17   18   19   "
        "20   21   22   23   24   25   26   27   28\n"
        "worker 0  0F0  .    .    .    .    .    0F1  3F0  3I0  3W0  .    .    .    3F1  3I1  .    0I0  0W0  .    .    "
        ".    .    0I1  0W1  .    .    .    3W1  .\n"
        "worker 1  .    1F0  .    .    .    2F0  .    1F1  .    2I0  2W0  2F1  .    .    1I0  2I1  .    .    1W0  .    "
        "1I1  .    .    .    1W1  .    .    .    2W1\n");

  const schedules::linked_stages net(4, false);
  const std::vector<stage_times> times(4, {1, 1, 1});
  std::string rows[2];
  simulate(v_half{},
           {.stages = 4,
            .micro_batches = 3,
            .recompute = recompute_mode::never,
            .times = times.data(),
            .links = net.links,
            .link_count = net.count},
           {}, [&rows](const instruction& it, std::int64_t begin, std::int64_t) {
             std::string& row = rows[v_half::worker_of(4, it.stage)];
             while (static_cast<std::int64_t>(row.size()) < 4 * begin) row += ".   ";
             row.append(detail::label_of(it, true).text()) += ' ';
           });
  CHECK(rows[0] == "0F0 0F1 .   3F0 3I0 3W0 0F2 .   3F1 3I1 3W1 0I0 0W0 3F2 3I2 0I1 0W1 .   0I2 0W2 3W2 ");
  CHECK(rows[1] == ".   1F0 2F0 1F1 .   2I0 2W0 2F1 1F2 1I0 2I1 2W1 2F2 1W0 1I1 2I2 1W1 1I2 1W2 2W2 ");
}

TEST_CASE("V-Half holds at most K + 2 chunk inputs, and a step takes at most 6 M + 3.5 K parts") {
  for (int K = 1; K <= 14; ++K) {
    CHECK(schedules::most_in_flight(v_half{}, 2 * K, 4 * K) <= K + 2);
    CHECK(timetable(v_half{}, 2 * K, 4 * K).makespan(1, 1, 1) <= 24 * K + 7 * K / 2);
  }
  CHECK(schedules::most_in_flight(v_half{}, 16, 32) == 10);  // 1F1B's first worker: 16 halves
  CHECK(timetable(v_half{}, 16, 32).bubble() == doctest::Approx(22.0 / 214));
}
