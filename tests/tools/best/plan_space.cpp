#include <gpipe/tools/best/plan_space.hpp>

#include <doctest/doctest.h>

#include <set>
#include <utility>
#include <vector>

using namespace gpipe;
using namespace gpipe::detail;

namespace {

std::vector<std::pair<int, int>> splits(int samples, const plan_space& of = {}) {
  std::vector<std::pair<int, int>> all;
  each_split(samples, of, [&](int M, int B) { all.push_back({M, B}); });
  return all;
}
using pairs = std::vector<std::pair<int, int>>;

}  // namespace

TEST_CASE("a mini-batch is split in every way that no smaller number or size replaces") {
  CHECK(splits(1) == pairs{{1, 1}});
  CHECK(splits(6) == pairs{{1, 6}, {2, 3}, {3, 2}, {6, 1}});
  CHECK(splits(7) == pairs{{1, 7}, {2, 4}, {3, 3}, {4, 2}, {7, 1}});
  for (int samples = 1; samples < 200; ++samples)
    for (const auto& [M, B] : splits(samples)) {
      CHECK(M * B >= samples);
      CHECK((M - 1) * B < samples);
      CHECK(M * (B - 1) < samples);
    }
}

TEST_CASE("no micro-batch has fewer samples than the space allows, the last one included") {
  plan_space of{.batch = 7, .min_micro_batch_size = 2};
  CHECK(splits(7, of) == pairs{{1, 7}, {2, 4}});  // three of 3 would leave one sample, four of 2 as well
  of.batch = 8;
  CHECK(splits(8, of) == pairs{{1, 8}, {2, 4}, {3, 3}, {4, 2}});
  CHECK(splits(1, of).empty());  // of eight replicas
  of.batch = 1;
  CHECK(splits(1, of) == pairs{{1, 1}});
  of.batch = 8;
  of.replicas = 8;
  CHECK(splits(1, of) == pairs{{1, 1}});
  of.micro_batches = 8;
  of.replicas = 0;
  CHECK(splits(8, of) == pairs{{8, 1}});
}

TEST_CASE("a fixed number of micro-batches has one size, and a fixed size one number") {
  plan_space of{.devices = 1, .batch = 100};
  of.micro_batches = 30;
  CHECK(splits(100, of) == pairs{{30, 4}});
  of.micro_batches = 0;
  of.micro_batch_size = 30;
  CHECK(splits(100, of) == pairs{{4, 30}});
  of.micro_batches = 3;
  CHECK(splits(100, of).empty());
}

TEST_CASE("the plans of a space are all that its devices and layers admit, each once") {
  const plan_space of{.devices = 4, .batch = 8};
  const std::vector<plan_candidate> all = candidates_in(of, {}, 6);
  std::set<std::vector<int>> once;
  for (const plan_candidate& it : all) {
    CHECK(it.replicas * it.workers <= 4);
    CHECK(it.stages <= 6);
    CHECK(it.replicas * it.micro_batches * it.micro_batch_size >= 8);
    CHECK(it.stages == it.workers * stages_per_worker(it.schedule, it.chunks));
    CHECK(schedule_choice(it.schedule, it.chunks).admits(it.stages, it.micro_batches));
    CHECK((it.workers > 1 || it.stages == 1));
    CHECK(once.insert({static_cast<int>(it.schedule), it.stages, it.replicas, it.workers, it.micro_batches,
                       it.micro_batch_size})
              .second);
  }
  // One worker: 5, 3, 3 and 2 splits of 8, 4, 3 and 2 samples, for 1 to 4 replicas.
  int alone = 0;
  for (const plan_candidate& it : all) alone += it.workers == 1 && it.schedule == schedule_kind::one_f_one_b;
  CHECK(alone == 5 + 3 + 3 + 2);
  CHECK(once.count({static_cast<int>(schedule_kind::zb_v), 6, 1, 3, 8, 1}) == 1);
  CHECK(once.count({static_cast<int>(schedule_kind::zb_v), 8, 1, 4, 8, 1}) == 0);  // 6 layers
}

TEST_CASE("a space with more plans than a search holds is refused") {
  CHECK_THROWS_WITH(candidates_in({.devices = 1 << 12, .batch = 1 << 16}, {}, 1 << 12),
                    "the space has more than 4194304 plans; fix more choices, such as workers or micro_batch_size");
}

TEST_CASE("a space is checked: what it fixes must have a plan") {
  CHECK_THROWS_WITH(require_space({.devices = 0}, {}, 4), "devices is 0; choose 1 to 65536");
  CHECK_THROWS_WITH(require_space({.devices = 4, .batch = 8, .workers = 5}, {}, 9), "workers is 5; choose 0 to 4");
  CHECK_THROWS_WITH(require_space({.devices = 4, .batch = 8, .replicas = 2, .workers = 3}, {}, 9),
                    "replicas x workers is 2 x 3, and there are 4 devices; fix one of them, or smaller numbers");
  CHECK_THROWS_WITH(require_space({.devices = 2, .schedule = schedule_kind::forward_only}, {}, 4),
                    "schedule is forward-only; choose a built-in schedule that trains, or none");
  CHECK_THROWS_WITH(require_space({.devices = 2, .schedule = schedule_kind::searched}, {}, 4),
                    "schedule is searched; choose a built-in schedule that trains, or none");
  CHECK_THROWS_WITH(require_space({.devices = 2, .schedule = schedule_kind::searched}, {}, 4),
                    "schedule is searched; choose a built-in schedule that trains, or none");
  const device_spec each[] = {h100, l4};
  CHECK_THROWS_WITH(require_space({.devices = 3}, {.devices = each, .device_count = 2}, 4),
                    "device_count is 2, and the space has 3 devices; describe each of them");
  CHECK_NOTHROW(require_space({.devices = 2}, {.devices = each, .device_count = 2}, 4));
  const device_spec placed[] = {h100.in_process(1), l4.in_process(0)};
  CHECK_THROWS_WITH(require_space({.devices = 2}, {.devices = placed, .device_count = 2}, 4),
                    "the devices name 2 processes, and the search may leave devices out; name none, and name the "
                    "processes of the plan's devices when it is found");
}
