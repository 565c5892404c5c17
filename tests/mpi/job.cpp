#include <gpipe/mpi.hpp>

#include <doctest/doctest.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include <sched.h>

#include "support/allocations.hpp"
#include "support/processes.hpp"

// A job of processes. The law of its channels is in ends.cpp; here rank 0 sends, rank 1 receives, other ranks wait.

using namespace gpipe;

namespace {

constexpr int capacity = 4, width = 700;  // 2,800 words: more than MPI sends before the receiver is ready

/// Both ends of a channel of `values` values. Micro-batch m has the receiver's slot m mod `slots` and the sender's slot
/// m mod `sender_slots`.
struct channel_of {
  int micro_batches, memory_slots, sender_slots, values;
  std::vector<std::vector<std::uint32_t>> memory;  // [value]
  std::unique_ptr<sending_end> out;
  std::unique_ptr<receiving_end> in;

  channel_of(int count, int layer_count, int sender_slot_count, int value_count = 1)
      : micro_batches(count), memory_slots(layer_count), sender_slots(sender_slot_count), values(value_count) {
    const bool sends = the_job().rank() == 0;
    channel_layout along{sends ? 1 : 0, capacity, {}, {}, {}};
    for (int v = 0; v < values; ++v) {
      const auto row = static_cast<std::size_t>(width / (v + 1));
      auto& words =
          memory.emplace_back(row * capacity * static_cast<std::size_t>(std::max(memory_slots, sender_slots)));
      along.values.push_back({reinterpret_cast<std::byte*>(words.data()), 4 * row * capacity, 4 * row});
    }
    for (int m = 0; m < count; ++m)
      along.receiver_slot.push_back(m % memory_slots), along.sender_slot.push_back(m % sender_slots);
    if (sends) out = the_job().sender(along);
    if (the_job().rank() == 1) {
      along.sender_slot = along.receiver_slot;
      in = the_job().receiver(along);
    }
  }

  static std::uint32_t word(int message, int v, std::size_t i) {
    return static_cast<std::uint32_t>(message * 31 + v) * 2654435761u + static_cast<std::uint32_t>(i);
  }
  std::span<std::uint32_t> at(int v, int slot, int samples = capacity) {
    const auto row = static_cast<std::size_t>(width / (v + 1));
    return std::span(memory[static_cast<std::size_t>(v)])
        .subspan(row * capacity * static_cast<std::size_t>(slot), row * static_cast<std::size_t>(samples));
  }
  void send(int m, int message) {
    const int samples = samples_of(message);
    out->acquire(m, {});
    for (int v = 0; v < values; ++v) {
      const auto words = at(v, m % sender_slots, samples);
      for (std::size_t i = 0; i < words.size(); ++i) words[i] = word(message, v, i);
    }
    out->publish(m, samples);
  }
  bool holds(int m, int message) {
    bool same = true;
    for (int v = 0; v < values; ++v) {
      const auto words = at(v, m % memory_slots, samples_of(message));
      for (std::size_t i = 0; i < words.size(); ++i) same = same && words[i] == word(message, v, i);
    }
    return same;
  }
  bool take(int m, int message) { return in->consume(m, {}) == samples_of(message) && holds(m, message); }
  static int samples_of(int message) { return message % 5 == 3 ? 1 + message % 3 : capacity; }

  /// Rounds over all micro-batches. The receiver releases them in order, or last in, first out.
  bool exchange(int rounds, bool last_first) {
    bool same = true;
    for (int message = 0; message < rounds * micro_batches; ++message)
      if (out) send(message % micro_batches, message);
    for (int first = 0; in && first < rounds * micro_batches; first += memory_slots) {
      const int n = std::min(memory_slots, rounds * micro_batches - first);
      for (int k = 0; k < n; ++k) {
        same = same && take((first + k) % micro_batches, first + k);
        if (!last_first) in->release((first + k) % micro_batches);
      }
      for (int k = n - 1; last_first && k >= 0; --k) in->release((first + k) % micro_batches);
    }
    return same;
  }
};

/// Returns when all processes are here.
void wait_for_all() {
  int nothing = 0;
  for (int r = 0; r < the_job().ranks(); ++r) the_job().broadcast(&nothing, sizeof nothing, r, 0);
}

}  // namespace

TEST_CASE("a failure ends every wait with its cause, and no message is left under way") {
  for (const int guilty : {0, 1}) {
    channel_of channel(5, 5, 2), back(1, 1, 1);
    CHECK(channel.exchange(1, false));
    try {
      // Some messages are under way, some are taken.
      for (int m = 0; m < 3; ++m)
        if (channel.out) channel.send(m, m + 7);
      if (channel.in) CHECK(channel.take(0, 7));
      if (the_job().rank() == guilty)
        throw error("thrown here", "do that", {.stage = 4, .micro_batch = 2, .action = "forward"});
      if (channel.in) channel.in->consume(4, {});
      for (;;) the_job().begin({.action = "forward"});
    } catch (const detail::interrupted&) {
      CHECK(the_job().rank() != guilty);
    } catch (const error& cause) {
      CHECK(the_job().rank() == guilty);
      the_job().fail(cause);
    }
    const error cause = the_job().recover();
    CHECK(cause.wrong() == "thrown here");
    CHECK(cause.remedy() == "do that");
    CHECK(cause.where().rank == guilty);
    CHECK(cause.where().stage == 4);
    CHECK(cause.where().micro_batch == 2);
    CHECK(cause.where().action == "forward");
    CHECK(channel.exchange(2, true));
    wait_for_all();
  }
}

TEST_CASE("channels and gathers allocate nothing by operator new after construction") {
  channel_of channel(4, 2, 2);
  const auto all = the_job().make_all_gather(std::vector<std::size_t>(static_cast<std::size_t>(the_job().ranks()), 8));
  const long before = allocations;
  for (int i = 0; i < 5; ++i) {
    channel.exchange(5, false);
    all->gather({}, {});
  }
  CHECK(allocations == before);
}

TEST_CASE("every rank gets the bytes of all ranks") {
  const int ranks = the_job().ranks(), rank = the_job().rank();
  std::vector<std::size_t> sizes;
  for (int r = 0; r < ranks; ++r) sizes.push_back(static_cast<std::size_t>(64 * r));  // rank 0 contributes none
  const auto all = the_job().make_all_gather(sizes);
  for (int round = 0; round < 50; ++round) {
    std::memset(all->mine(), round + rank, sizes[static_cast<std::size_t>(rank)]);
    all->gather({}, {});
    for (int r = 1; r < ranks; ++r)
      for (const std::size_t i : {std::size_t{0}, sizes[static_cast<std::size_t>(r)] - 1})
        CHECK(all->of(r)[i] == static_cast<std::byte>(round + r));
  }
  for (int r = 0; r < ranks; ++r) {
    std::vector<int> numbers(5000, r == rank ? 10 + r : 0);
    the_job().broadcast(numbers.data(), numbers.size() * sizeof(int), r, 0);
    CHECK(numbers.front() + numbers.back() == 20 + 2 * r);
  }
}

TEST_CASE("a value that differs is named with its rank, and the processes go on together") {
  const int last = the_job().ranks() - 1;
  const bool differs = the_job().rank() == last;
  const std::string two = "ranks 0 and " + std::to_string(last) + " do not agree on ";
  const auto said = [](collective_kind what, std::initializer_list<agreed_value> traits) {
    try {
      the_job().agree(what, {traits.begin(), traits.size()});
    } catch (const error& cause) {
      CHECK(cause.where().rank == the_job().ranks() - 1);
      return cause.wrong();
    }
    return std::string();
  };
  const agreed_value weather{"the weather", 1};
  for (int round = 0; round < 3; ++round) {
    CHECK(said(collective_kind::make, {weather, agreed_value::number("the time", 2)}) == "");
    CHECK(said(collective_kind::make, {weather, agreed_value::number("the time", differs ? -4 : 3)}) ==
          two + "the time: 3 and -4");
    CHECK(said(collective_kind::make, {{"the weather", differs ? 1u : 2u}, agreed_value::number("the time", 5)}) ==
          two + "the weather");
    CHECK(said(differs ? collective_kind::freeze : collective_kind::make, {weather}) ==
          two + "the call: make a trainer and freeze");
  }
  wait_for_all();
}

TEST_CASE("a rank that makes another call ends every wait at once") {
  const int ranks = the_job().ranks(), rank = the_job().rank(), last = ranks - 1;
  const auto all = the_job().make_all_gather(std::vector<std::size_t>(static_cast<std::size_t>(ranks), 8));
  channel_of channel(1, 1, 1);
  for (int round = 0; round < 6; ++round) {
    const agreed_value samples[] = {agreed_value::number("the samples of the call", rank == last ? 9 : 16)};
    try {
      the_job().enter(collective_kind::step, samples);
      if (round % 2 == 0) all->gather({.action = "gather"}, {});
      if (channel.in) channel.in->consume(0, {});  // nothing was sent
      for (;;) the_job().begin({.action = "forward"});
    } catch (const detail::interrupted&) {
    }
    const error first = the_job().recover();
    CHECK(first.wrong() ==
          "ranks 0 and " + std::to_string(last) + " do not agree on the samples of the call: 16 and 9");
    CHECK(first.remedy() == "run the same program with the same options and data in every process");
    CHECK(first.where().rank == last);
    CHECK(channel.exchange(1, false));
    wait_for_all();  // the next failure must not reach a rank that still recovers from this one
    std::string found;
    try {  // one reads, the others step
      if (rank == last) wait_for_all();
      the_job().enter(collective_kind::step, samples);
      all->gather({.action = "gather"}, {});
    } catch (const detail::interrupted&) {
      found = the_job().recover().wrong();
    } catch (const error& cause) {
      found = cause.wrong();
    }
    CHECK(found == "ranks 0 and " + std::to_string(last) + " do not agree on the call: step and read");
    wait_for_all();
  }
}

TEST_CASE("ranks that broadcast different things of one size throw") {
  const bool differs = the_job().rank() == the_job().ranks() - 1;
  int number = 7;
  CHECK_THROWS_WITH_AS(the_job().broadcast(&number, sizeof number, 0, differs ? 1 : 2),
                       doctest::Contains("do not agree on what to read"), error);
  CHECK(number == 7);
  wait_for_all();
}

TEST_CASE("a job of a communicator has its ranks, and leaves the communicator to the program") {
  int rank = 0, word = 0, arrived = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm part = MPI_COMM_NULL;  // of all but rank 0, the last one first
  MPI_Comm_split(MPI_COMM_WORLD, rank == 0 ? MPI_UNDEFINED : 0, -rank, &part);
  if (rank == 0) {
    CHECK_THROWS_WITH_AS(mpi::job{part}, doctest::Contains("the job's communicator is MPI_COMM_NULL; let"), error);
    return wait_for_all();
  }
  const int ranks = the_job().ranks() - 1, mine = ranks - rank;
  MPI_Request any = MPI_REQUEST_NULL;
  MPI_Irecv(&word, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, part, &any);
  {
    mpi::job some(part);
    CHECK(some.rank() == mine);
    CHECK(some.ranks() == ranks);
    CHECK_FALSE(some.lost());
    for (int r = 0; r < ranks; ++r) {
      int number = r == mine ? 10 + r : 0;
      some.broadcast(&number, sizeof number, r, 0);
      CHECK(number == 10 + r);
    }
    MPI_Errhandler handler = MPI_ERRHANDLER_NULL;
    MPI_Comm_get_errhandler(part, &handler);
    CHECK(handler == MPI_ERRORS_ARE_FATAL);
    MPI_Errhandler_free(&handler);
  }
  MPI_Test(&any, &arrived, MPI_STATUS_IGNORE);
  CHECK_FALSE(arrived);  // the program's receive takes no message of the job
  MPI_Barrier(part);
  MPI_Send(&mine, 1, MPI_INT, (mine + 1) % ranks, 77, part);
  MPI_Wait(&any, MPI_STATUS_IGNORE);
  CHECK(word == (mine + ranks - 1) % ranks);
  MPI_Comm_free(&part);
  wait_for_all();
}

TEST_CASE("a job knows to how many cores the processes of its host are bound together") {
  cpu_set_t before, one;
  REQUIRE(sched_getaffinity(0, sizeof before, &before) == 0);
  the_job();
  int core = 0;  // mpirun may have bound each process to one of its own
  while (!CPU_ISSET(static_cast<std::size_t>(core), &before)) ++core;
  MPI_Bcast(&core, 1, MPI_INT, 0, MPI_COMM_WORLD);
  CPU_ZERO(&one);
  CPU_SET(static_cast<std::size_t>(core), &one);
  REQUIRE(sched_setaffinity(0, sizeof one, &one) == 0);
  {
    mpi::job bound(MPI_COMM_WORLD);
    CHECK(bound.on_this_host().cores == 1);
    CHECK(bound.on_this_host().processes >= 1);
    CHECK(bound.on_this_host().processes <= bound.ranks());
    CHECK(bound.on_this_host().alike == bound.on_this_host().processes);
    CHECK(bound.on_this_host().first < bound.on_this_host().alike);
    if (bound.on_this_host().alike == bound.ranks()) CHECK(bound.on_this_host().first == bound.rank());
    std::vector<int> counts;
    for (int r = 0; r < bound.ranks(); ++r) counts.push_back(r + 1);
    bound.set_workers(counts);
    if (bound.on_this_host().processes == bound.ranks()) {
      CHECK(bound.on_this_host().workers == bound.ranks() * (bound.ranks() + 1) / 2);
      CHECK(bound.on_this_host().first == bound.rank() * (bound.rank() + 1) / 2);
    }
  }
  REQUIRE(sched_setaffinity(0, sizeof before, &before) == 0);
  wait_for_all();
}

TEST_CASE("a job of an intercommunicator is an error") {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm side = MPI_COMM_NULL, between = MPI_COMM_NULL;  // rank 0 and all others
  MPI_Comm_split(MPI_COMM_WORLD, rank > 0, rank, &side);
  MPI_Intercomm_create(side, 0, MPI_COMM_WORLD, rank > 0 ? 0 : 1, 1, &between);
  CHECK_THROWS_WITH_AS(mpi::job{between}, doctest::Contains("the job's communicator is an intercommunicator; give"),
                       error);
  MPI_Comm_free(&between);
  MPI_Comm_free(&side);
  wait_for_all();
}

TEST_CASE("a round ends for all processes or for none that has seen a loss") {
  MPI_Comm all = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &all);
  for (const bool in_time : {true, false}) {
    mpi::shared_status status(all, true);
    const auto barrier = [&] { MPI_Barrier(all); };
    if (status.count() == 1) {  // it is about processes of one host
      status.close();
      continue;
    }
    if (status.own() == 0) CHECK(status.conclude(1));
    barrier();
    if (in_time && status.own() == 0) CHECK(status.conclude(2));
    barrier();
    if (status.own() > 0) CHECK(status.give_up(2) != in_time);
    barrier();
    if (status.own() == 0) CHECK_FALSE(status.conclude(in_time ? 3 : 2));
    if (status.own() > 0) CHECK(status.give_up(3));
    barrier();
    status.close();
  }
  MPI_Comm_free(&all);
}

TEST_CASE("a message of more than two gigabytes is rejected") {
  const channel_layout along{1 - the_job().rank() % 2, 1 << 20, {{nullptr, 0, 1 << 12}}, {0}, {0}};
  CHECK_THROWS_WITH_AS(the_job().sender(along),
                       "a micro-batch of 1048576 samples of 4096 bytes is more than one message carries; make "
                       "micro-batches smaller",
                       error);
}
