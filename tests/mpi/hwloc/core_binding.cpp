#include <gpipe/hwloc.hpp>

#include <doctest/doctest.h>

#include <sched.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include <gpipe/device/host/arena.hpp>
#include <gpipe/train/trainer.hpp>

#include "support/nets.hpp"

using namespace gpipe;

namespace {

const laws::samples<float> rows(40, 12, 1);

constexpr core_set every_core = [] {
  core_set all{};
  for (std::uint64_t& some : all) some = ~std::uint64_t{0};
  return all;
}();

core_set core_range(int first, int end, int step = 1) {
  core_set found{};
  for (int c = first; c < end; c += step) found[gpipe::detail::index(c) / 64] |= std::uint64_t{1} << c % 64;
  return found;
}

hwloc_topology_t synthetic_topology(const char* text) {
  hwloc_topology_t made = nullptr;
  REQUIRE(hwloc_topology_init(&made) == 0);
  REQUIRE(hwloc_topology_set_synthetic(made, text) == 0);
  REQUIRE(hwloc_topology_load(made) == 0);
  return made;
}

int count_both(const core_set& a, const core_set& b) {
  core_set found{};
  for (std::size_t i = 0; i < found.size(); ++i) found[i] = a[i] & b[i];
  return gpipe::detail::count_of(found);
}

/// A machine of nodes, cores and hardware threads.
struct machine {
  const char* text;
  int nodes, cores, threads;  // of the machine, of a node, of a core
  int of_node() const { return cores * threads; }
};

/// Checks a division of the `allowed` threads of the machine.
void check_division(const machine& of, const core_set& allowed, int workers) {
  CAPTURE(std::string(of.text));
  CAPTURE(workers);
  const core_binding binding(synthetic_topology(of.text), allowed);
  const std::vector<core_set> sets = binding.divide(workers, {});
  REQUIRE(static_cast<int>(sets.size()) == workers);
  int cores = 0, threads = 0;
  for (int c = 0; c < of.nodes * of.cores; ++c) {
    const int here = count_both(core_range(c * of.threads, (c + 1) * of.threads), allowed);
    cores += here > 0;
    threads += here;
  }
  const bool whole = workers <= cores;  // whole cores, for there are enough
  int least = 1 << 20, most = 0;
  for (std::size_t w = 0; w < sets.size(); ++w) {
    CHECK(count_both(sets[w], allowed) == gpipe::detail::count_of(sets[w]));
    int nodes = 0, units = 0;
    for (int n = 0; n < of.nodes; ++n)
      nodes += count_both(sets[w], core_range(n * of.of_node(), (n + 1) * of.of_node())) > 0;
    for (int c = 0; c < of.nodes * of.cores; ++c) {
      const core_set core = core_range(c * of.threads, (c + 1) * of.threads);
      const int mine = count_both(sets[w], core);
      units += mine > 0;
      if (whole && mine > 0) CHECK(mine == count_both(core, allowed));
    }
    CHECK(nodes == 1);
    const int size = whole ? units : gpipe::detail::count_of(sets[w]);
    least = std::min(least, size), most = std::max(most, size);
    for (std::size_t other = 0; other < w; ++other)
      if (workers <= threads) CHECK(count_both(sets[w], sets[other]) == 0);
  }
  CHECK(least >= 1);
  CHECK(most <= least + 1);
  if (workers > threads) {  // all threads have workers, and their numbers differ by one at most
    std::vector<int> users;
    for (int t = 0; t < of.nodes * of.of_node(); ++t)
      if (count_both(core_range(t, t + 1), allowed) == 1)
        users.push_back(static_cast<int>(std::count(sets.begin(), sets.end(), core_range(t, t + 1))));
    const auto [fewest, mostly] = std::minmax_element(users.begin(), users.end());
    CHECK(*fewest >= 1);
    CHECK(*mostly <= *fewest + 1);
  }
}

constexpr machine machines[] = {{"numa:2 l2:2 core:2 pu:2", 2, 4, 2},
                                {"numa:2 core:4 pu:1", 2, 4, 1},
                                {"numa:4 l3:1 core:3 pu:2", 4, 3, 2},
                                {"numa:1 core:1 pu:1", 1, 1, 1},
                                {"numa:3 core:5 pu:1", 3, 5, 1}};

}  // namespace

TEST_CASE("workers divide the cores of every topology: disjoint, in one node each, even within one") {
  for (const machine& of : machines)
    for (int workers = 1; workers <= 16; ++workers) {
      const int all = of.nodes * of.of_node();
      check_division(of, every_core, workers);
      check_division(of, core_range(0, all, 3), workers);        // some cores, some with one thread
      check_division(of, core_range(0, of.of_node()), workers);  // one node
      check_division(of, core_range(all - 1, all), workers);     // one thread
      check_division(of, core_range(all / 3, all), workers);     // a part of a node, and whole ones
    }
}

TEST_CASE("neighbours share caches, and a core more is left out rather than taken from another node") {
  const core_binding caches(synthetic_topology("numa:2 l2:2 core:2 pu:2"), every_core);
  const auto four = caches.divide(4, {});
  for (int w = 0; w < 4; ++w) CHECK(four[gpipe::detail::index(w)] == core_range(4 * w, 4 * w + 4));  // an L2 each
  CHECK(caches.divide(16, {})[5] == core_range(5, 6));
  CHECK(caches.divide(32, {})[5] == core_range(2, 3));
  const core_binding nodes(synthetic_topology("numa:2 core:4 pu:1"), every_core);
  CHECK(nodes.divide(3, {}) == std::vector<core_set>{core_range(0, 2), core_range(2, 4), core_range(4, 7)});
  CHECK(nodes.divide(1, {}) == std::vector<core_set>{core_range(0, 4)});
}

TEST_CASE("processes that may run on the same cores divide them") {
  const core_binding binding(synthetic_topology("numa:2 core:4 pu:2"), every_core);
  for (int processes = 1; processes <= 16; ++processes)
    for (int workers = 1; workers * processes <= 16; ++workers) {
      CAPTURE(processes);
      CAPTURE(workers);
      const int of_a_part = processes <= 8 ? 2 * (8 / processes) : 16 / processes;  // hardware threads, of whole cores
      core_set all{};
      int count = 0;
      for (int p = 0; p < processes; ++p)
        for (const core_set& set : binding.divide(workers, {.alike = processes * workers, .first = p * workers})) {
          if (workers <= of_a_part) CHECK(count_both(all, set) == 0);
          all = gpipe::detail::united(all, set);
          ++count;
        }
      CHECK(count == processes * workers);
    }
  // More processes than hardware threads: some share one.
  CHECK(binding.divide(1, {.alike = 32, .first = 31})[0] == core_range(15, 16));
  // mpirun has bound this one to cores of its own.
  CHECK(binding.divide(1, {.processes = 4, .workers = 4, .alike = 1})[0] == core_range(0, 8));
  // A process with one worker, and one with three.
  const core_binding four(synthetic_topology("numa:1 core:4 pu:1"), every_core);
  CHECK(four.divide(1, {.alike = 4}) == std::vector<core_set>{core_range(0, 1)});
  CHECK(four.divide(3, {.alike = 4, .first = 1}) ==
        std::vector<core_set>{core_range(1, 2), core_range(2, 3), core_range(3, 4)});
}

TEST_CASE("cores that the topology lacks, and another machine's topology, are errors that say what to do") {
  CHECK_THROWS_WITH_AS(core_binding(synthetic_topology("numa:1 core:2 pu:1"), core_range(8, 10)),
                       doctest::Contains("the topology of hwloc has none of the 2 cores"), error);
  REQUIRE(setenv("HWLOC_SYNTHETIC", "numa:1 core:2 pu:1", 1) == 0);
  CHECK_THROWS_WITH_AS(core_binding(), doctest::Contains("unset HWLOC_XMLFILE and HWLOC_SYNTHETIC"), error);
  unsetenv("HWLOC_SYNTHETIC");
}

TEST_CASE("pages of memory prefer a node, and what surrounds them does not") {
  hwloc_topology_t here = nullptr;
  REQUIRE(hwloc_topology_init(&here) == 0);
  REQUIRE(hwloc_topology_load(here) == 0);
  const core_set allowed = gpipe::detail::cores::allowed_bits();
  const host::arena memory(10 * 4096 + 100);
  std::vector<std::byte> small(64);
  CHECK(gpipe::detail::prefer_nodes(here, small.data(), small.size(), allowed));  // no whole page
  if (!gpipe::detail::prefer_nodes(here, memory.data(), memory.size(), allowed)) {
    MESSAGE("the system refuses to bind memory");
  } else {
    const auto policy_at = [&](std::size_t byte) {
      hwloc_membind_policy_t found{};
      hwloc_bitmap_t set = hwloc_bitmap_alloc();
      CHECK(hwloc_get_area_membind(here, memory.data() + byte, 1, set, &found, 0) == 0);
      hwloc_bitmap_free(set);
      return found;
    };
    CHECK(policy_at(0) == HWLOC_MEMBIND_BIND);
    CHECK(policy_at(9 * 4096) == HWLOC_MEMBIND_BIND);
    CHECK(policy_at(10 * 4096) != HWLOC_MEMBIND_BIND);
  }
  hwloc_topology_destroy(here);
}

TEST_CASE("a training with a binding runs each worker on its cores, with the same bits") {
  using net = laws::residual_net<float>;
  const core_binding binding;
  const plan_options plan{.stages = 2, .micro_batches = 4, .micro_batch_size = 4};
  const auto expected = binding.divide(2, {});
  core_set seen[2]{};
  const core_set before = gpipe::detail::cores::allowed_bits();
  training_options how{.seed = 3};
  trainer<net, adam> free(plan, {}, how);
  how.cores = &binding;
  how.before = [&](const instruction& it) { seen[it.stage] = gpipe::detail::cores::allowed_bits(); };
  trainer<net, adam> bound(plan, {}, how);
  const batch data = rows.take(0, 16);
  for (int i = 0; i < 3; ++i) CHECK(bound.step(data).loss == free.step(data).loss);
  CHECK(bound.parameter_hash() == free.parameter_hash());
  CHECK(seen[0] == expected[0]);
  CHECK(seen[1] == expected[1]);
  CHECK(gpipe::detail::cores::allowed_bits() == before);
  for (const stage_report& r : bound.report()) {
    CHECK(r.own_cores == gpipe::detail::count_of(expected[gpipe::detail::index(r.stage)]));
    CHECK(!r.far_memory);
  }
}

TEST_CASE("a process on one core trains with a binding, and its workers share the core") {
  std::thread([] {  // another thread, so that this one stays free
    core_set one{};
    const core_set all = gpipe::detail::cores::allowed_bits();
    for (int c = 1024; c-- > 0;)
      if (count_both(all, core_range(c, c + 1)) == 1) one = core_range(c, c + 1);
    REQUIRE(gpipe::detail::cores::bind(one));
    const core_binding binding;
    CHECK(binding.divide(3, {}) == std::vector<core_set>{one, one, one});
    trainer<laws::residual_net<float>, adam> training(
        plan_options{.stages = 3, .micro_batches = 4, .micro_batch_size = 4}, {}, training_options{.cores = &binding});
    training.step(rows.take(0, 16));
    CHECK(training.steps() == 1);
    CHECK(training.report()[2].own_cores == 1);
  })
      .join();
}
