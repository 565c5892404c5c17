// Law 3: the checker accepts every schedule that we ship, for every S <= 8 and M <= 16 that it admits, under rendezvous
// and under one-slot channels, and finds planted faults.

#include <gpipe/plan/check.hpp>
#include <gpipe/plan/describe.hpp>
#include <gpipe/plan/schedule/kind.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

using namespace gpipe;

namespace {

/// Neighbours, a skip over the whole pipeline, two skips that cross, and one that takes no gradient.
struct network {
  link links[16] = {};
  int count = 0;

  constexpr explicit network(int stages, bool skips = true) {
    const auto add = [this](link it) { links[count++] = it; };
    for (int from = 0; from + 1 < stages; ++from) {
      add({from, from + 1});
      if (skips && from == 1 && stages > 3) add({1, 3});
      if (skips && from == 2 && stages > 4) add({2, 4, false});
      if (skips && from == 0 && stages > 2) add({0, stages - 1});
    }
  }
};

constexpr recompute_mode modes[] = {recompute_mode::always, recompute_mode::except_last, recompute_mode::never};

constexpr bool passes(int stages, int micro_batches, bool skips, int slots) {
  const network net(stages, skips);
  for (const auto kind : {schedule_kind::fill_drain, schedule_kind::forward_only})
    for (const auto mode : modes)
      if (!check_schedule(kind, stages, micro_batches, mode, net.links, net.count, slots).ok()) return false;
  return true;
}
static_assert(passes(1, 1, true, rendezvous) && passes(4, 6, true, rendezvous) && passes(4, 6, true, 1));
static_assert(passes(8, 3, true, rendezvous) && passes(3, 16, false, 1));

constexpr verdict paper_size() {
  const network net(8, false);
  return check_schedule(fill_drain{}, 8, 64, recompute_mode::always, net.links, net.count);
}
static_assert(paper_size().ok());

/// Narayanan et al., "PipeDream-2BW", 2021 (1F1B with a flush): the first worker waits for its gradient while it has
/// an activation to give. Not shipped: lowered cell by cell it runs into a circle under rendezvous.
struct one_forward_one_backward {
  static constexpr bool trains = true;
  static constexpr const char* name() { return "1F1B"; }
  static constexpr bool admits(int stages, int micro_batches) { return stages >= 1 && micro_batches >= 1; }
  static constexpr int workers(int stages) { return stages; }
  static constexpr int worker_of(int, int stage) { return stage; }
  static constexpr int ticks(int stages, int micro_batches) { return 2 * (micro_batches + stages - 1); }
  static constexpr int in_flight(int stages, int micro_batches, int stage) {
    return stages - stage < micro_batches ? stages - stage : micro_batches;
  }
  static constexpr int forwarded_last(int, int micro_batches, int) { return micro_batches - 1; }
  static constexpr cell at(int stages, int micro_batches, int s, int tick) {
    const int back = tick - (2 * stages - 1 - s);
    if (back >= 0 && back % 2 == 0 && back / 2 < micro_batches) return {act::backward, s, back / 2};
    const int warm = stages - s, since = tick - s;  // so many forwards before the first backward, then in turn
    if (since >= 0 && since < warm && since < micro_batches) return {act::forward, s, since};
    if (since >= 2 * warm && since % 2 == 0 && since / 2 < micro_batches) return {act::forward, s, since / 2};
    return {};
  }
};

struct programs {
  network net;
  std::vector<std::vector<instruction>> lines;
  std::vector<int> last, in_flight;
  programs_terms terms;

  template <class Schedule>
  programs(Schedule schedule, int stages, int micro_batches, recompute_mode mode, const network& over)
      : net(over), lines(static_cast<std::size_t>(Schedule::workers(stages))) {
    for (int w = 0; w < Schedule::workers(stages); ++w)
      lower(schedule, stages, micro_batches, mode, net.links, net.count, w,
            [&](const instruction& it) { lines[static_cast<std::size_t>(w)].push_back(it); });
    for (int s = 0; s < stages; ++s) {
      last.push_back(Schedule::forwarded_last(stages, micro_batches, s));
      in_flight.push_back(Schedule::in_flight(stages, micro_batches, s));
    }
    terms = {.stages = stages,
             .micro_batches = micro_batches,
             .link_count = net.count,
             .trains = Schedule::trains,
             .recompute = mode};
  }

  verdict run(int slots) {
    terms.links = net.links;
    terms.forwarded_last = last.data();
    terms.in_flight = in_flight.data();
    std::vector<program_view> views;
    for (const auto& program : lines) views.push_back({program.data(), static_cast<int>(program.size())});
    return check(terms, views.data(), static_cast<int>(views.size()), slots);
  }

  /// Walks every order in which workers can move: whether there is one in which all end, and one in which they stick.
  std::pair<bool, bool> explore(int slots) const {
    std::set<std::vector<std::size_t>> seen;
    bool some_end = false, some_stick = false;
    std::vector<std::vector<std::size_t>> open{std::vector<std::size_t>(lines.size())};
    while (!open.empty()) {
      const auto at = open.back();
      open.pop_back();
      if (!seen.insert(at).second) continue;
      bool moves = false, ended = true;
      for (std::size_t w = 0; w < lines.size(); ++w) {
        if (at[w] == lines[w].size()) continue;
        ended = false;
        auto next = at;
        ++next[w];
        const instruction& it = lines[w][at[w]];
        if (is_send(it.kind) || is_receive(it.kind)) {
          const link& over = net.links[it.link];
          const auto peer = static_cast<std::size_t>(it.stage == over.from ? over.to : over.from);
          const act other = static_cast<act>(is_send(it.kind) ? static_cast<int>(it.kind) - 1
                                                              : static_cast<int>(it.kind) + 1);
          const auto matches = [&](const instruction& line) { return line.kind == other && line.link == it.link; };
          const auto mine = [&](const instruction& line) { return line.kind == it.kind && line.link == it.link; };
          if (slots == rendezvous) {
            if (at[peer] == lines[peer].size() || !matches(lines[peer][at[peer]])) continue;
            ++next[peer];
          } else {
            const auto end = [&](std::size_t of) { return lines[of].begin() + static_cast<std::ptrdiff_t>(at[of]); };
            const auto there = std::count_if(lines[peer].begin(), end(peer), matches);
            const auto here = std::count_if(lines[w].begin(), end(w), mine);
            if (is_send(it.kind) ? here - there >= slots : there == here) continue;
          }
        }
        moves = true;
        open.push_back(next);
      }
      some_end = some_end || ended;
      some_stick = some_stick || (!moves && !ended);
    }
    return {some_end, some_stick};
  }
};

std::string fault_of(const verdict& found) { return name(found.what); }

}  // namespace

TEST_CASE("every schedule passes for every S <= 8 and M <= 16") {
  for (int S = 1; S <= 8; ++S)
    for (int M = 1; M <= 16; ++M)
      for (const bool skips : {false, true})
        for (const auto kind : {schedule_kind::fill_drain, schedule_kind::forward_only})
          for (const auto mode : modes)
            for (const int slots : {rendezvous, 1, 2}) {
              const network net(S, skips);
              const verdict found = check_schedule(kind, S, M, mode, net.links, net.count, slots);
              if (!found.ok()) CAPTURE(S);
              if (!found.ok()) CAPTURE(M);
              if (!found.ok()) CAPTURE(describe(found));
              REQUIRE(found.ok());
            }
}

TEST_CASE("large ones pass at start") {
  link links[127];
  for (int s = 0; s < 127; ++s) links[s] = {s, s + 1};
  CHECK(check_schedule(fill_drain{}, 128, 512, recompute_mode::always, links, 127).ok());
}

TEST_CASE("the stash bound is tight: one place less is too few") {
  for (int S = 1; S <= 4; ++S)
    for (int M = 1; M <= 4; ++M) {
      programs all(fill_drain{}, S, M, recompute_mode::always, network(S));
      for (int s = 0; s < S; ++s) {
        --all.in_flight[static_cast<std::size_t>(s)];
        CHECK(fault_of(all.run(rendezvous)) == "stash");
        ++all.in_flight[static_cast<std::size_t>(s)];
      }
    }
}

template <class Schedule>
void stash_places_are_distinct(Schedule schedule) {
  for (int S = 1; S <= 8; ++S)
    for (int M = 1; M <= 16; ++M)
      for (int s = 0; s < S; ++s) {
        int slot[16], owner[16];
        const int count = stash_slots(schedule, S, M, s, slot);
        REQUIRE(count == schedule.in_flight(S, M, s));
        std::fill(owner, owner + 16, -1);
        bool shared = false;
        for (int t = 0; t < schedule.ticks(S, M); ++t) {
          const cell c = schedule.at(S, M, s, t);
          if (c.kind == act::forward) {
            shared = shared || slot[c.micro_batch] >= count || owner[slot[c.micro_batch]] >= 0;
            if (schedule.trains) owner[slot[c.micro_batch]] = c.micro_batch;
          } else if (c.kind == act::backward) {
            shared = shared || owner[slot[c.micro_batch]] != c.micro_batch;
            owner[slot[c.micro_batch]] = -1;
          }
        }
        REQUIRE_FALSE(shared);
      }
}

TEST_CASE("stash places are never shared by two micro-batches in flight") {
  stash_places_are_distinct(fill_drain{});
  stash_places_are_distinct(forward_only{});
  stash_places_are_distinct(one_forward_one_backward{});  // uses each place again
}

TEST_CASE("a dropped action is found, whichever it is") {
  for (const auto mode : {recompute_mode::always, recompute_mode::never})
    for (const int slots : {rendezvous, 1}) {
      const network net(4);
      const programs whole(fill_drain{}, 4, 3, mode, net);
      for (std::size_t w = 0; w < whole.lines.size(); ++w)
        for (std::size_t i = 0; i < whole.lines[w].size(); ++i) {
          programs cut = whole;
          cut.lines[w].erase(cut.lines[w].begin() + static_cast<std::ptrdiff_t>(i));
          const verdict found = cut.run(slots);
          CAPTURE(w);
          CAPTURE(std::string(label_of(whole.lines[w][i], true).text()));
          CHECK_FALSE(found.ok());
          CHECK(fault_of(found) != "deadlock");  // what is missing is named, not only its consequence
        }
    }
}

TEST_CASE("a missing receive is found where its input is needed") {
  const network net(3, false);
  programs all(fill_drain{}, 3, 2, recompute_mode::never, net);
  all.lines[1].erase(all.lines[1].begin());  // F1<0
  const verdict found = all.run(rendezvous);
  CHECK(fault_of(found) == "premature");
  CHECK(found.worker == 1);
  CHECK(found.position == 0);
  CHECK(found.at == instruction{act::forward, 1, 1, -1});
}

TEST_CASE("a swapped pair of different actions is found, or does no harm") {
  for (const int slots : {rendezvous, 1}) {
    const network net(3);
    const programs whole(fill_drain{}, 3, 3, recompute_mode::always, net);
    int found = 0;
    for (std::size_t w = 0; w < 3; ++w)
      for (std::size_t i = 0; i + 1 < whole.lines[w].size(); ++i) {
        programs swapped = whole;
        std::swap(swapped.lines[w][i], swapped.lines[w][i + 1]);
        const auto [some_end, some_stick] = swapped.explore(slots);
        const verdict it = swapped.run(slots);
        CAPTURE(w);
        CAPTURE(describe(it));
        if (it.ok()) CHECK((some_end && !some_stick));
        if (some_stick) CHECK_FALSE(it.ok());
        found += !it.ok();
      }
    CHECK(found > 20);
  }
  // Two forwards change places, sends and all, in one stage only: both ends disagree.
  const network net(2, false);
  programs all(fill_drain{}, 2, 2, recompute_mode::never, net);
  std::swap(all.lines[0][0], all.lines[0][2]);
  std::swap(all.lines[0][1], all.lines[0][3]);
  CHECK(fault_of(all.run(rendezvous)) == "unpaired");
  CHECK(fault_of(all.run(1)) == "unpaired");
}

TEST_CASE("a wrong retirement order is found") {
  // Fill-drain with micro-batches numbered from the first retires M-1, ..., 0.
  programs all(fill_drain{}, 3, 4, recompute_mode::never, network(3));
  for (auto& program : all.lines)
    for (instruction& it : program)
      if (it.micro_batch >= 0) it.micro_batch = 3 - it.micro_batch;
  CHECK(fault_of(all.run(rendezvous)) == "retirement");
  CHECK(fault_of(all.run(1)) == "retirement");
}

TEST_CASE("1F1B lowered naively waits in a circle under rendezvous, not with a slot between") {
  const network net(3, false);
  programs all(one_forward_one_backward{}, 3, 5, recompute_mode::never, net);
  CHECK(fault_of(all.run(rendezvous)) == "deadlock");
  CHECK(all.run(1).ok());
  CHECK(all.explore(rendezvous) == std::pair(false, true));
  CHECK(all.explore(1) == std::pair(true, false));
}

TEST_CASE("skips in an order that both ends do not share wait in a circle") {
  const network net(3);
  programs all(fill_drain{}, 3, 2, recompute_mode::never, net);
  auto& first = all.lines[0];  // F1 F1>0 F1>1: let the skip go first, and the last stage take it last
  auto& last = all.lines[2];   // F1<1 F1<2 F1
  std::swap(first[1], first[2]);
  CHECK(all.run(rendezvous).ok());
  std::swap(last[0], last[1]);
  CHECK(fault_of(all.run(rendezvous)) == "deadlock");
  CHECK(all.run(1).ok());
}

TEST_CASE("one execution decides for all: every interleaving of small programs ends the same way") {
  for (int S = 1; S <= 4; ++S)
    for (int M = 1; M <= 3; ++M)
      for (const int slots : {rendezvous, 1}) {
        const network net(S);
        CHECK(programs(fill_drain{}, S, M, recompute_mode::except_last, net).explore(slots) == std::pair(true, false));
        CHECK(programs(forward_only{}, S, M, recompute_mode::never, net).explore(slots) == std::pair(true, false));
        programs naive(one_forward_one_backward{}, S, M, recompute_mode::never, network(S, false));
        const bool ends = naive.run(slots).ok();
        CHECK(naive.explore(slots) == std::pair(ends, !ends));
      }
}
