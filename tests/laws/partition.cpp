// sanitizers: none
// optimize: yes

// Law 4: the partition equals brute force in its objective on every small instance, and a slow exact reference on
// larger ones: equal and unequal devices, with and without transfers and skips, with and without memory limits.

#include <gpipe/plan/partition/partition.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <random>
#include <utility>
#include <vector>

using namespace gpipe;
using namespace gpipe::detail;

namespace {

constexpr std::int64_t none = (std::numeric_limits<std::int64_t>::max)();

/// A random problem with its arrays. Half of all have unequal devices, transfers, memory limits, either objective.
struct instance {
  std::vector<pass_cost> costs;
  std::vector<int> kind_of, bytes, enters, memory;
  std::vector<std::vector<int>> readers;
  std::vector<transfer> transfers;
  partition_problem problem;
  bool limited = false, stash = false;

  instance(std::mt19937& random, int min_layers, int max_layers, int largest) {
    const auto below = [&random](int limit) { return static_cast<int>(random() % static_cast<unsigned>(limit)); };
    problem.layers = min_layers + below(max_layers - min_layers + 1);
    problem.stages = 1 + below(problem.layers < 12 ? problem.layers : 12);
    problem.micro_batches = std::vector{1, 2, 3, 8, 32}[random() % 5];
    problem.goal = below(2) == 0 ? objective::fill_drain : objective::bottleneck;
    problem.kinds = below(2) == 0 ? 1 : 2 + below(2);
    const bool by_speed = below(2) == 0, sparse = below(4) == 0;
    for (int k = 0; k < problem.kinds; ++k)
      for (int l = 0; l < problem.layers; ++l) {
        pass_cost cost{below(largest + 1), below(2 * largest + 1)};
        if (sparse && below(2) == 0) cost = {};
        if (by_speed && k > 0) {
          cost = costs[static_cast<std::size_t>(l)];
          cost = {cost.forward * (k + 1), cost.backward * (k + 1)};
        }
        costs.push_back(cost);
      }
    for (int s = 0; s < problem.stages; ++s) kind_of.push_back(below(problem.kinds));
    if (below(2) == 0) {  // some or all forwards run again
      problem.recomputes_first = below(2) == 0;
      const bool all = below(2) == 0;
      for (pass_cost& cost : costs)
        if (all || below(2) == 0) cost = {cost.forward, cost.backward + cost.forward, cost.forward};
    }
    if (problem.goal == objective::bottleneck && below(2) == 0) add_transfers(random, largest);
    if (below(2) == 0) {
      limited = true;
      const bool equal = below(2) == 0;
      const int room = 9 + 5 * problem.layers / problem.stages;
      stash = below(2) == 0;  // a stage's inputs count too, even with few layers
      for (int l = 0; l < problem.layers; ++l) {
        bytes.push_back(below(9));
        enters.push_back(stash && l > 0 && below(2) == 0 ? below(20) : 0);
      }
      for (int s = 0; s < problem.stages; ++s) memory.push_back(equal && s > 0 ? memory[0] : 4 + below(room));
    }
    problem.costs = costs.data();
    problem.kind_of = problem.kinds > 1 ? kind_of.data() : nullptr;
    problem.transfers = transfers.data();
    problem.transfer_count = static_cast<int>(transfers.size());
  }

  void add_transfers(std::mt19937& random, int largest) {
    const auto below = [&random](int limit) { return static_cast<int>(random() % static_cast<unsigned>(limit)); };
    readers.reserve(static_cast<std::size_t>(2 * problem.layers));  // transfers point to them
    for (int l = 0; l + 1 < problem.layers; ++l)
      transfers.push_back({.writer = l, .time = below(largest + 1), .gradient = below(2) == 0});
    for (int skips = below(problem.layers); skips > 0 && problem.layers > 1; --skips) {
      const int writer = below(problem.layers - 1), count = 1 + below(4);
      std::vector<int>& to = readers.emplace_back();
      for (int r = 0; r < count; ++r) to.push_back(writer + 1 + below(problem.layers - writer - 1));
      std::sort(to.begin(), to.end());
      transfers.push_back({writer, to.data(), count, below(largest + 1), below(2) == 0});
    }
  }

  bool fits(int stage, int begin, int end) const {
    if (!limited) return true;
    int held = enters[static_cast<std::size_t>(begin)];
    for (int l = begin; l < end; ++l) held += bytes[static_cast<std::size_t>(l)];
    return held <= memory[static_cast<std::size_t>(stage)];
  }
  /// Whether the smallest of equal cuts is not looked for.
  bool ties() const {
    return problem.recomputes_first && problem.goal == objective::fill_drain &&
           std::equal(kind_of.begin() + 1, kind_of.end(), kind_of.begin()) && (!limited || (equal_memory() && !stash));
  }
  bool equal_memory() const { return std::equal(memory.begin() + 1, memory.end(), memory.begin()); }

  void cut(int* first) const {
    if (!limited) return partition(problem, first);
    if (equal_memory() && !stash)
      return partition(problem, first, [this](int begin, int end) { return fits(0, begin, end); });
    partition(problem, first, [this](int stage, int begin, int end) { return fits(stage, begin, end); });
  }
};

/// Measures of a stage, or their sum and maximum over stages; compared as cuts are chosen.
struct measure {
  std::int64_t sum = 0, turn = 0, forward = 0, backward = 0, both = 0, total = 0;

  void add(const measure& stage) {
    sum += stage.sum;
    turn = (std::max)(turn, sum + stage.turn);
    forward = (std::max)(forward, stage.forward);
    backward = (std::max)(backward, stage.backward);
    both = (std::max)(both, stage.both);
    total = (std::max)(total, stage.total);
  }
  std::int64_t objective(const partition_problem& p) const {
    return p.goal == objective::bottleneck ? total : turn + (p.micro_batches - 1) * (forward + backward);
  }
};

/// By the definition: each value separately.
measure stage_measure(const partition_problem& p, int stage, int begin, int end) {
  measure held;
  std::int64_t again = 0;
  for (int l = begin; l < end; ++l) {
    held.forward += p.costs[p.kind(stage) * p.layers + l].forward;
    held.backward += p.costs[p.kind(stage) * p.layers + l].backward;
    again += p.costs[p.kind(stage) * p.layers + l].recompute;
  }
  held.both = held.total = held.forward + held.backward;
  held.sum = held.both - again;
  if (p.recomputes_first) held.turn = again;
  for (int i = 0; i < p.transfer_count; ++i) {
    const transfer& t = p.transfers[i];
    bool here = false, later = false;
    for (int r = 0; r < t.reader_count; ++r) {
      here = here || (t.reader(r) >= begin && t.reader(r) < end);
      later = later || t.reader(r) >= end;
    }
    if (t.writer < begin ? here : t.writer < end && later) held.total += t.time + (t.gradient ? t.time : 0);
  }
  return held;
}

struct best {
  std::int64_t objective = none, both = none;

  void take(std::int64_t value, std::int64_t largest) {
    if (value < objective || (value == objective && largest < both)) *this = {value, largest};
  }
};

best brute_force(const instance& it) {
  const partition_problem& p = it.problem;
  best found;
  for (unsigned mask = 0; mask < 1u << (p.layers - 1); ++mask) {  // bit l: a cut behind layer l
    if (__builtin_popcount(mask) != p.stages - 1) continue;
    measure whole;
    bool fits = true;
    for (int s = 0, begin = 0; s < p.stages && fits; ++s) {
      int end = begin + 1;
      while (end < p.layers && (mask >> (end - 1) & 1u) == 0) ++end;
      fits = it.fits(s, begin, end);
      whole.add(stage_measure(p, s, begin, end));
      begin = end;
    }
    if (fits) found.take(whole.objective(p), whole.both);
  }
  return found;
}

/// All cuts of a prefix into s stages that are not dominated in every measure.
best reference(const instance& it) {
  const partition_problem& p = it.problem;
  using front = std::vector<measure>;
  std::vector<front> ends(static_cast<std::size_t>(p.layers) + 1);
  ends[0] = {measure{}};
  for (int s = 0; s < p.stages; ++s) {
    std::vector<front> next(ends.size());
    for (int begin = 0; begin < p.layers; ++begin)
      for (int end = begin + 1; end <= p.layers; ++end) {
        if (ends[static_cast<std::size_t>(begin)].empty() || !it.fits(s, begin, end)) continue;
        const measure of_stage = stage_measure(p, s, begin, end);
        for (measure before : ends[static_cast<std::size_t>(begin)]) {
          before.add(of_stage);
          if (p.goal == objective::bottleneck) before.sum = before.turn = before.forward = before.backward = 0;
          else before.total = 0;
          front& to = next[static_cast<std::size_t>(end)];
          const auto covers = [](const measure& a, const measure& b) {
            return a.sum <= b.sum && a.turn <= b.turn && a.forward <= b.forward && a.backward <= b.backward &&
                   a.both <= b.both && a.total <= b.total;
          };
          if (std::any_of(to.begin(), to.end(), [&](const measure& other) { return covers(other, before); })) continue;
          std::erase_if(to, [&](const measure& other) { return covers(before, other); });
          to.push_back(before);
        }
      }
    ends = std::move(next);
  }
  best found;
  for (const measure& whole : ends.back()) found.take(whole.objective(p), whole.both);
  return found;
}

struct tally {
  int rejected = 0, unequal = 0, moved = 0, limited = 0, turned = 0;
};

void agrees(const instance& it, const best& expected, tally& seen) {
  const partition_problem& p = it.problem;
  std::vector<int> first(static_cast<std::size_t>(p.stages) + 1, -1);
  seen.unequal += p.kinds > 1;
  seen.moved += p.transfer_count > 0;
  seen.limited += it.limited;
  seen.turned += it.ties();
  bool rejected = false;
  try {
    it.cut(first.data());
  } catch (const error&) {
    rejected = true;
  }
  seen.rejected += rejected;
  REQUIRE(rejected == (expected.objective == none));
  if (rejected) return;
  REQUIRE(first.front() == 0);
  REQUIRE(first.back() == p.layers);
  measure whole;
  for (int s = 0; s < p.stages; ++s) {
    const int begin = first[static_cast<std::size_t>(s)], end = first[static_cast<std::size_t>(s) + 1];
    REQUIRE(begin < end);
    REQUIRE(it.fits(s, begin, end));
    whole.add(stage_measure(p, s, begin, end));
  }
  REQUIRE(whole.objective(p) == expected.objective);  // ratio to the optimum: exactly 1
  if (!it.ties()) REQUIRE(whole.both == expected.both);
  REQUIRE(objective_of(p, first.data()) == expected.objective);
}

}  // namespace

TEST_CASE("the partition equals brute force on a hundred thousand small instances") {
  std::mt19937 random(20190716);
  tally seen;
  for (int i = 0; i < 100'000; ++i) {
    CAPTURE(i);
    const instance it(random, 1, 9, std::vector{1, 3, 20, 100'000}[static_cast<std::size_t>(i % 4)]);
    agrees(it, brute_force(it), seen);
  }
  CHECK(seen.rejected > 5'000);
  CHECK(seen.rejected < 40'000);
  CHECK(seen.unequal > 40'000);
  CHECK(seen.moved > 20'000);
  CHECK(seen.limited > 40'000);
  CHECK(seen.turned > 5'000);
}

TEST_CASE("the partition equals a slow exact reference on larger instances") {
  std::mt19937 random(7);
  tally seen;
  for (int i = 0; i < 400; ++i) {
    CAPTURE(i);
    const instance it(random, 10, 40, std::vector{1, 3, 20, 1'000}[static_cast<std::size_t>(i % 4)]);
    agrees(it, reference(it), seen);
  }
  CHECK(seen.rejected < 200);
}
