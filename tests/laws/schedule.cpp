// sanitizers: none

// Law 3: the checker accepts every schedule that we ship, for every S <= 8 and M <= 16 that it admits, under rendezvous
// and under one-slot channels, and finds planted faults.

#include <gpipe/plan/program/deadlock_check.hpp>
#include <gpipe/plan/timetable/slot_assignment.hpp>
#include <gpipe/plan/timetable/check.hpp>
#include <gpipe/plan/program/print.hpp>
#include <gpipe/plan/schedule/any_schedule.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <unordered_set>
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

constexpr recompute_mode modes[] = {recompute_mode::always, recompute_mode::except_last, recompute_mode::never,
                                    recompute_mode::as_needed};
constexpr schedule_choice choices[] = {schedule_kind::fill_drain,
                                       schedule_kind::one_f_one_b,
                                       {schedule_kind::interleaved, 2},
                                       {schedule_kind::interleaved, 3},
                                       {schedule_kind::interleaved, 4},
                                       schedule_kind::zb_h1,
                                       schedule_kind::zb_v,
                                       schedule_kind::forward_only};

constexpr bool admits(schedule_choice choice, int stages, int micro_batches) {
  return with_schedule(choice, [&](auto schedule) { return schedule.admits(stages, micro_batches); });
}

constexpr bool passes(schedule_choice choice, int stages, int micro_batches, bool skips, int slots) {
  const network net(stages, skips);
  return check_schedule(choice, stages, micro_batches, recompute_mode::except_last, net.links, net.count, slots).ok();
}
template <int... I>
constexpr bool all_pass(int stages, int micro_batches, std::integer_sequence<int, I...>) {
  return ((!admits(choices[I], stages, micro_batches) || (passes(choices[I], stages, micro_batches, true, rendezvous) &&
                                                          passes(choices[I], stages, micro_batches, true, 1))) &&
          ...);
}
constexpr bool passes_together(int stages, int micro_batches, int coalesce) {
  const network net(stages, true);
  for (const int slots : {rendezvous, 1})
    for (const send_mode sends : {send_mode::synchronous, send_mode::buffered})
      if ((sends == send_mode::synchronous || slots != rendezvous) &&
          !check_schedule(fill_drain{}, stages, micro_batches, recompute_mode::never, net.links, net.count,
                          sends == send_mode::buffered ? micro_batches : slots, sends, coalesce)
               .ok())
        return false;
  return true;
}
static_assert(passes_together(1, 1, 2) && passes_together(4, 6, 2) && passes_together(4, 6, 4) &&
              passes_together(3, 5, 8) && passes_together(8, 4, 3));

static_assert(all_pass(1, 1, std::make_integer_sequence<int, 8>{}));
static_assert(all_pass(4, 6, std::make_integer_sequence<int, 8>{}));
static_assert(all_pass(8, 4, std::make_integer_sequence<int, 8>{}));

struct programs {
  network net;
  std::vector<std::vector<instruction>> lines;
  std::vector<int> in_flight, worker_of;
  std::array<bool, 8 * 16> recomputed{};
  programs_terms terms;

  template <class Schedule>
  programs(Schedule schedule, int stages, int micro_batches, recompute_mode mode, const network& over,
           send_mode sends = send_mode::synchronous)
      : net(over), lines(static_cast<std::size_t>(schedule.workers(stages))) {
    for (int w = 0; w < schedule.workers(stages); ++w)
      lower(
          schedule, stages, micro_batches, mode, net.links, net.count, w,
          [&](const instruction& it) { lines[static_cast<std::size_t>(w)].push_back(it); }, sends);
    for (int s = 0; s < stages; ++s) {
      in_flight.push_back(schedule.in_flight(stages, micro_batches, s));
      worker_of.push_back(schedule.worker_of(stages, s));
      flag_recomputed(schedule, stages, micro_batches, mode, s, recomputed.data() + s * micro_batches);
    }
    terms = {.stages = stages, .micro_batches = micro_batches, .link_count = net.count, .trains = schedule.trains};
  }

  verdict run(int slots) {
    terms.links = net.links;
    terms.recomputed = recomputed.data();
    terms.in_flight = in_flight.data();
    terms.worker_of = worker_of.data();
    std::vector<program_view> views;
    for (const auto& program : lines) views.push_back({program.data(), static_cast<int>(program.size())});
    return check(terms, views.data(), static_cast<int>(views.size()), slots);
  }

  /// Walks every order in which workers can move: whether there is one in which all end, and one in which they stick.
  /// For at most 4 workers. A state is the line that each is at; what is in the channels follows from it.
  std::pair<bool, bool> explore(int slots) const {
    const std::size_t workers = lines.size();
    const auto channels = static_cast<std::size_t>(4 * net.count);  // both ends of both ways of each link
    const auto end_of = [](const instruction& it) {
      return static_cast<std::size_t>(4 * it.link + static_cast<int>(it.kind) -
                                      static_cast<int>(act::receive_activation));
    };
    // How often a worker has used each end before each of its lines.
    std::vector<std::vector<int>> used(workers);
    for (std::size_t w = 0; w < workers; ++w) {
      used[w].assign((lines[w].size() + 1) * channels, 0);
      for (std::size_t i = 0; i < lines[w].size(); ++i) {
        for (std::size_t c = 0; c < channels; ++c) used[w][(i + 1) * channels + c] = used[w][i * channels + c];
        if (lines[w][i].link >= 0) ++used[w][(i + 1) * channels + end_of(lines[w][i])];
      }
    }
    using state = std::array<std::uint16_t, 4>;
    const auto packed = [](const state& at) {
      return std::uint64_t{at[0]} | std::uint64_t{at[1]} << 16 | std::uint64_t{at[2]} << 32 |
             std::uint64_t{at[3]} << 48;
    };
    std::unordered_set<std::uint64_t> seen{0};
    std::vector<state> open{state{}};
    bool some_end = false, some_stick = false;
    while (!open.empty()) {
      const state at = open.back();
      open.pop_back();
      bool moves = false, ended = true;
      for (std::size_t w = 0; w < workers; ++w) {
        if (at[w] == lines[w].size()) continue;
        ended = false;
        state next = at;
        ++next[w];
        const instruction& it = lines[w][at[w]];
        if (it.link >= 0) {
          const link& over = net.links[it.link];
          const auto peer = static_cast<std::size_t>(
              worker_of[static_cast<std::size_t>(it.stage == over.from ? over.to : over.from)]);
          const auto mine = end_of(it), other = mine ^ 1u;  // a receive stands before its send
          if (slots == rendezvous) {
            if (at[peer] == lines[peer].size()) continue;
            const instruction& theirs = lines[peer][at[peer]];
            if (theirs.link != it.link || end_of(theirs) != other) continue;
            ++next[peer];
          } else {
            const int here = used[w][at[w] * channels + mine], there = used[peer][at[peer] * channels + other];
            if (is_send(it.kind) ? here - there >= slots : there == here) continue;
          }
        }
        moves = true;
        if (seen.insert(packed(next)).second) open.push_back(next);
      }
      some_end = some_end || ended;
      some_stick = some_stick || (!moves && !ended);
    }
    return {some_end, some_stick};
  }
};

std::string fault_of(const verdict& found) { return name(found.what); }

/// A table with something changed in it.
struct edited {
  static constexpr bool trains = true;
  std::vector<std::vector<cell>> rows;
  std::vector<int> worker, room;

  template <class Schedule>
  edited(Schedule schedule, int S, int M) : rows(static_cast<std::size_t>(schedule.workers(S))) {
    for (int w = 0; w < schedule.workers(S); ++w)
      for (int t = 0; t < schedule.ticks(S, M); ++t)
        rows[static_cast<std::size_t>(w)].push_back(schedule.at(S, M, w, t));
    for (int s = 0; s < S; ++s) {
      worker.push_back(schedule.worker_of(S, s));
      room.push_back(schedule.in_flight(S, M, s));
    }
  }
  static const char* name() { return "edited"; }
  static bool admits(int, int) { return true; }
  int workers(int) const { return static_cast<int>(rows.size()); }
  int worker_of(int, int stage) const { return worker[static_cast<std::size_t>(stage)]; }
  int ticks(int, int) const { return static_cast<int>(rows[0].size()); }
  int in_flight(int, int, int stage) const { return room[static_cast<std::size_t>(stage)]; }
  cell at(int, int, int w, int t) const { return rows[static_cast<std::size_t>(w)][static_cast<std::size_t>(t)]; }
};
static_assert(scheduler<edited>);

/// Calls `use(table)` with each table in which one cell is dropped, two neighbouring ticks of a row are swapped, a cell
/// moves to another micro-batch, or a stage has one place less.
template <class Use>
void plant(const edited& whole, int S, int M, Use&& use) {
  edited table = whole;
  for (auto& row : table.rows)
    for (std::size_t t = 0; t < row.size(); ++t) {
      const cell c = row[t];
      if (c.kind == act::idle) continue;
      row[t] = {};
      use(table);
      row[t] = {c.kind, c.stage, (c.micro_batch + 1) % M};
      use(table);
      row[t] = c;
      if (t + 1 == row.size()) continue;
      std::swap(row[t], row[t + 1]);
      use(table);
      std::swap(row[t], row[t + 1]);
    }
  for (int s = 0; s < S; ++s) {
    --table.room[static_cast<std::size_t>(s)];
    use(table);
    ++table.room[static_cast<std::size_t>(s)];
  }
}

}  // namespace

TEST_CASE("every schedule passes for every S <= 8 and M <= 16 that it admits") {
  for (const auto choice : choices)
    for (int S = 1; S <= 8; ++S)
      for (int M = 1; M <= 16; ++M) {
        CAPTURE(name(choice.kind));
        CAPTURE(S);
        CAPTURE(M);
        if (!admits(choice, S, M)) {
          CHECK_THROWS_WITH_AS(check_schedule(choice, S, M, recompute_mode::never, nullptr, 0),
                               doctest::Contains("does not admit"), error);
          continue;
        }
        for (const bool skips : {false, true}) {
          const network net(S, skips);
          CHECK(check_table(choice, S, M, net.links, net.count).ok());
          for (const auto mode : modes) {
            for (const int slots : {rendezvous, 1, 2}) {
              const verdict found = check_schedule(choice, S, M, mode, net.links, net.count, slots);
              if (!found.ok()) CAPTURE(describe(found));
              REQUIRE(found.ok());
            }
            // Programs that count on sends that do not wait: two slots do for neighbours.
            for (const int slots : {2, M})
              if (slots == M || !skips || choice.kind == schedule_kind::fill_drain)
                REQUIRE(check_schedule(choice, S, M, mode, net.links, net.count, slots, send_mode::buffered).ok());
          }
        }
      }
}

TEST_CASE("every schedule passes on fewer workers than it has, and each stage does the same in the same order") {
  const auto order = [](const schedule_choice& schedule, int S, int M, int stage) {
    std::vector<cell> cells;
    const int worker = schedule.worker_of(S, stage);
    for (int t = 0; t < schedule.ticks(S, M); ++t)
      if (const cell c = schedule.at(S, M, worker, t); c.stage == stage) cells.push_back(c);
    return cells;
  };
  for (const auto& choice : choices)
    for (int S = 1; S <= 8; ++S)
      for (const int M : {1, 4, 8, 12})
        for (int W = 1; admits(choice, S, M) && W <= choice.workers(S); ++W) {
          CAPTURE(name(choice.kind));
          CAPTURE(S);
          CAPTURE(M);
          CAPTURE(W);
          const schedule_choice fewer = choice.on_workers(W);
          CHECK(fewer.workers(S) == W);
          const network net(S);
          CHECK(describe(check_table(fewer, S, M, net.links, net.count)) == "no fault");
          for (const int slots : {rendezvous, 1})
            CHECK(check_schedule(fewer, S, M, recompute_mode::except_last, net.links, net.count, slots).ok());
          for (int s = 0; s < S; ++s) CHECK(order(fewer, S, M, s) == order(choice, S, M, s));
        }
}

TEST_CASE("large ones pass at start") {
  link links[127];
  for (int s = 0; s < 127; ++s) links[s] = {s, s + 1};
  for (const auto choice : {schedule_kind::fill_drain, schedule_kind::one_f_one_b, schedule_kind::zb_h1}) {
    CHECK(check_schedule(choice, 128, 512, recompute_mode::always, links, 127).ok());
    CHECK(check_table(choice, 128, 512, links, 127).ok());
  }
}

TEST_CASE("the stash bound is tight: one place less is too few") {
  for (const auto choice : choices)
    for (int S = 1; S <= 8; ++S)
      for (int M = 1; M <= 8; ++M)
        if (admits(choice, S, M) && choice.kind != schedule_kind::forward_only)
          with_schedule(choice, [&](auto schedule) {
            const network net(S);
            programs all(schedule, S, M, recompute_mode::always, net);
            edited table(schedule, S, M);
            for (std::size_t s = 0; s < static_cast<std::size_t>(S); ++s) {
              --all.in_flight[s];
              CHECK(fault_of(all.run(rendezvous)) == "stash");
              ++all.in_flight[s];
              --table.room[s];
              CHECK(fault_of(check_table(table, S, M, net.links, net.count)) == "stash");
              ++table.room[s];
            }
          });
}

template <class Schedule>
void stash_places_are_distinct(Schedule schedule) {
  for (int S = 1; S <= 8; ++S)
    for (int M = 1; M <= 16; ++M)
      for (int s = 0; s < S && schedule.admits(S, M); ++s) {
        int slot[16], owner[16];
        gpipe::detail::rows table(schedule, S, M);
        const int count = stash_places(table, s, s, slot);
        REQUIRE(count == schedule.in_flight(S, M, s));
        std::fill(owner, owner + 16, -1);
        bool shared = false;
        for (int t = 0; t < schedule.ticks(S, M); ++t) {
          const cell c = schedule.at(S, M, schedule.worker_of(S, s), t);
          if (c.stage != s) continue;
          if (c.kind == act::forward) {
            shared = shared || slot[c.micro_batch] >= count || owner[slot[c.micro_batch]] >= 0;
            if (schedule.trains) owner[slot[c.micro_batch]] = c.micro_batch;
          } else if (c.kind != act::idle && c.kind != act::backward_input) {
            shared = shared || owner[slot[c.micro_batch]] != c.micro_batch;
            owner[slot[c.micro_batch]] = -1;
          }
        }
        REQUIRE_FALSE(shared);
      }
}

TEST_CASE("stash places are never shared by two micro-batches in flight") {
  for (const auto choice : choices) with_schedule(choice, [](auto schedule) { stash_places_are_distinct(schedule); });
}

TEST_CASE("parameter gradients retire in ascending order in every schedule") {
  for (const auto choice : choices)
    if (admits(choice, 8, 16))
      with_schedule(choice, [](auto schedule) {
        for (int s = 0; s < 8; ++s) {
          int next = 0;
          for (int t = 0; t < schedule.ticks(8, 16); ++t)
            if (const cell c = schedule.at(8, 16, schedule.worker_of(8, s), t);
                c.stage == s && (c.kind == act::backward || c.kind == act::backward_parameters))
              CHECK(c.micro_batch == next++);
          CHECK(next == (schedule.trains ? 16 : 0));
        }
      });
}

TEST_CASE("both checks agree on every table with a planted fault") {
  int bad = 0, good = 0;
  for (const auto choice : choices)
    for (const auto& size : {std::pair(1, 3), {2, 2}, {3, 3}, {4, 2}, {4, 5}, {4, 4}, {6, 4}})
      for (const bool skips : {false, true})
        if (const int S = size.first, M = size.second;
            admits(choice, S, M) && choice.kind != schedule_kind::forward_only)
          with_schedule(choice, [&](auto schedule) {
            const network net(S, skips);
            plant(edited(schedule, S, M), S, M, [&](const edited& table) {
              const verdict row = check_table(table, S, M, net.links, net.count);
              for (const int slots : {rendezvous, 1}) {
                const verdict run = check_schedule(table, S, M, recompute_mode::never, net.links, net.count, slots);
                CAPTURE(schedule.name());
                CAPTURE(S);
                CAPTURE(M);
                CAPTURE(skips);
                CAPTURE(slots);
                CAPTURE(describe(row));
                CAPTURE(describe(run));
                CHECK(row.ok() == run.ok());
              }
              (row.ok() ? good : bad) += 1;
            });
          });
  CHECK(bad > 1000);
  CHECK(good > 100);  // some cells can change places
}

TEST_CASE("a table of nonsense is no schedule, and does no harm") {
  const network net(4);
  for (const cell nonsense : {cell{act::forward, 0, 0},
                              {act::forward, 9, 0},
                              {act::backward, 1, 77},
                              {act::backward_parameters, 2, -5},
                              {act::send_gradient, 3, 1},
                              {act::update, -1, -1}}) {
    edited table(one_f_one_b{}, 4, 4);
    for (auto& row : table.rows)
      for (cell& c : row) c = nonsense;
    CHECK_FALSE(check_table(table, 4, 4, net.links, net.count).ok());
    for (const auto mode : modes) CHECK_FALSE(check_schedule(table, 4, 4, mode, net.links, net.count).ok());
  }
}

TEST_CASE("a dropped action is found, whichever it is") {
  for (const auto choice : choices)
    for (const auto mode : {recompute_mode::always, recompute_mode::never})
      for (const int slots : {rendezvous, 1})
        with_schedule(choice, [&](auto schedule) {
          const int S = 4, M = 4;
          if (!schedule.admits(S, M)) return;
          const programs whole(schedule, S, M, mode, network(S));
          for (std::size_t w = 0; w < whole.lines.size(); ++w)
            for (std::size_t i = 0; i < whole.lines[w].size(); ++i) {
              programs cut = whole;
              cut.lines[w].erase(cut.lines[w].begin() + static_cast<std::ptrdiff_t>(i));
              const verdict found = cut.run(slots);
              CAPTURE(schedule.name());
              CAPTURE(w);
              CAPTURE(std::string(label_of(whole.lines[w][i], true).text()));
              CHECK_FALSE(found.ok());
              CHECK(fault_of(found) != "deadlock");  // what is missing is named, not only its consequence
            }
        });
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
  for (const auto kind : schedule_kinds)
    for (const int slots : {rendezvous, 1})
      with_schedule(kind, [&, slots = slots](auto schedule) {
        const int S = schedule.admits(3, 3) ? 3 : 4, M = schedule.admits(3, 3) ? 3 : 2;
        const programs whole(schedule, S, M, recompute_mode::always, network(S));
        int found = 0;
        for (std::size_t w = 0; w < whole.lines.size(); ++w)
          for (std::size_t i = 0; i + 1 < whole.lines[w].size(); ++i) {
            programs swapped = whole;
            std::swap(swapped.lines[w][i], swapped.lines[w][i + 1]);
            const auto [some_end, some_stick] = swapped.explore(slots);
            const verdict it = swapped.run(slots);
            CAPTURE(schedule.name());
            CAPTURE(w);
            CAPTURE(describe(it));
            if (it.ok()) CHECK((some_end && !some_stick));
            if (some_stick) CHECK_FALSE(it.ok());
            found += !it.ok();
          }
        CHECK(found > (schedule.trains ? 20 : 5));
      });
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
  programs all(one_f_one_b{}, 3, 5, recompute_mode::never, network(3, false), send_mode::buffered);
  CHECK(fault_of(all.run(rendezvous)) == "deadlock");
  CHECK(all.run(1).ok());
  CHECK(all.explore(rendezvous) == std::pair(false, true));
  CHECK(all.explore(1) == std::pair(true, false));
}

TEST_CASE("skips in an order that both ends do not share wait in a circle") {
  programs all(fill_drain{}, 3, 1, recompute_mode::never, network(3));
  auto& first = all.lines[0];  // F0 F0>1 F0>0: the skip goes first
  auto& last = all.lines[2];   // F0<1 F0<2 F0
  CHECK(all.run(rendezvous).ok());
  std::swap(last[0], last[1]);
  CHECK(fault_of(all.run(rendezvous)) == "deadlock");
  CHECK(all.run(1).ok());
  std::swap(first[1], first[2]);
  CHECK(all.run(rendezvous).ok());
}

TEST_CASE("one execution decides for all: every interleaving of small programs ends the same way") {
  for (const auto choice : choices)
    for (int S = 1; S <= 4; ++S)
      for (int M = 1; M <= 6; ++M)
        if (admits(choice, S, M))
          with_schedule(choice, [&](auto schedule) {
            CAPTURE(schedule.name());
            CAPTURE(S);
            CAPTURE(M);
            const network net(S);
            for (const int slots : {rendezvous, 1})
              CHECK(programs(schedule, S, M, recompute_mode::as_needed, net).explore(slots) == std::pair(true, false));
            programs naive(schedule, S, M, recompute_mode::never, net, send_mode::buffered);
            const bool ends = naive.run(rendezvous).ok();
            CHECK(naive.explore(rendezvous) == std::pair(ends, !ends));
          });
}

/// A schedule of one's own: each micro-batch goes all the way and back before the next one begins.
///
///     tick     0   1   2   3   4   5   6   7
///     stage 0  F0  .   .   B0  F1  .   .   B1
///     stage 1  .   F0  B0  .   .   F1  B1  .
struct one_by_one {
  static constexpr bool trains = true;
  static constexpr const char* name() { return "one by one"; }
  static constexpr bool admits(int stages, int micro_batches) { return stages >= 1 && micro_batches >= 1; }
  static constexpr int workers(int stages) { return stages; }
  static constexpr int worker_of(int, int stage) { return stage; }
  static constexpr int ticks(int stages, int micro_batches) { return 2 * stages * micro_batches; }
  static constexpr int in_flight(int, int, int) { return 1; }
  static constexpr cell at(int stages, int, int worker, int tick) {
    const int m = tick / (2 * stages), step = tick % (2 * stages);
    if (step == worker) return {act::forward, worker, m};
    if (step == 2 * stages - 1 - worker) return {act::backward, worker, m};
    return {};
  }
};

TEST_CASE("a schedule of one's own is one struct") {
  for (int S = 1; S <= 4; ++S)
    for (int M = 1; M <= 6; ++M) {
      const network net(S);
      CHECK(check_table(one_by_one{}, S, M, net.links, net.count).ok());
      for (const int slots : {rendezvous, 1})
        CHECK(programs(one_by_one{}, S, M, recompute_mode::as_needed, net).explore(slots) == std::pair(true, false));
    }
  CHECK(timetable(one_by_one{}, 4, 8).simulate(1, 1, 1) == 4 * 8 * 3);
}
