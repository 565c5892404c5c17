#pragma once

#include <gpipe/mpi/failure_broadcast.hpp>
#include <gpipe/mpi/hosts/tcp_traffic.hpp>
#include <gpipe/mpi/quiet_open_mpi.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace gpipe::mpi {

/// The processes on other hosts, whose status this process cannot read. Causes of failures come as messages. A
/// process that polls sends a pulse to all others each quarter of a deadline, and answers those that ask:
///
///     rank 0    pulse   pulse   pulse   pulse                             rank 2 has sent nothing: it is lost
///     rank 1        pulse   pulse   pulse   pulse   waits for rank 2      alive, whoever waits for it
///     rank 2      pulse   its cable is out
class remote_hosts {
 public:
  using clock = std::chrono::steady_clock;

  /// `names[rank]`, or no names: all are on one host. `messages` carries nothing else; `elsewhere` are the ranks there.
  GPIPE_COLD remote_hosts(MPI_Comm messages, int rank, std::vector<std::string> names,
                          const std::vector<int>& elsewhere)
      : causes_(messages, elsewhere), messages_(messages), names_(std::move(names)), peers_(elsewhere.size()) {
    own_.rank = rank;
    for (std::size_t i = 0; i < elsewhere.size(); ++i) peers_[i].rank = elsewhere[i], peers_[i].heard = clock::now();
    post();
  }
  GPIPE_COLD ~remote_hosts() {
    MPI_Cancel(&receiving_);
    MPI_Wait(&receiving_, MPI_STATUS_IGNORE);
  }
  remote_hosts(const remote_hosts&) = delete;
  remote_hosts& operator=(const remote_hosts&) = delete;

  failure_broadcast& causes() noexcept { return causes_; }
  std::string name_of(int rank) const {
    return rank < 0 || names_.empty() ? std::string() : names_[static_cast<std::size_t>(rank)];
  }

  /// Receives pulses, and sends one if the last is `interval` ago. `ticks`: the progress of this process.
  void poll(clock::time_point now, std::chrono::nanoseconds interval, std::uint64_t ticks) {
    receive(now, ticks);
    if (now - pulsed_ < interval) return;
    pulsed_ = now;
    send(ticks, false);
  }
  /// The progress of all processes elsewhere, as far as it is known.
  std::uint64_t ticks() const noexcept {
    std::uint64_t sum = 0;
    for (const peer& it : peers_) sum += it.ticks;
    return sum;
  }
  /// Whether more bytes have moved over TCP since the last call than pulses have.
  GPIPE_COLD bool bytes_move() noexcept {
    constexpr std::uint64_t of_a_pulse = 256, of_all = 4096;
    const std::uint64_t bytes = traffic_.bytes(), before = std::exchange(bytes_, bytes);
    return bytes > before + of_all + of_a_pulse * std::exchange(pulses_, 0);
  }
  /// A process that has sent nothing since then: the rank `wanted` if that is one, else the lowest; -1: there is none.
  GPIPE_COLD int silent_since(clock::time_point then, int wanted) const noexcept {
    int found = -1;
    for (const peer& it : peers_)
      if (it.heard < then && (found < 0 || it.rank == wanted)) found = it.rank;
    return found;
  }

  /// Asks all processes elsewhere for an answer; none counts as heard until it has given one.
  GPIPE_COLD void ask(std::uint64_t ticks) {
    asked_ = clock::now();
    send(ticks, true);
  }
  GPIPE_COLD std::vector<int> without_answer() const {
    std::vector<int> found;
    for (const peer& it : peers_)
      if (it.heard < asked_) found.push_back(it.rank);
    return found;
  }

 private:
  struct pulse {
    std::uint64_t ticks = 0;
    int rank = -1, asks = 0;
  };
  struct peer {
    int rank = -1;
    std::uint64_t ticks = 0;
    clock::time_point heard{};
    pulse out{};
    MPI_Request sending = MPI_REQUEST_NULL;
  };
  static constexpr int tag = 1;

  GPIPE_OUT_OF_LINE void send(std::uint64_t ticks, bool asks) {
    for (peer& it : peers_) send_to(it, ticks, asks);
  }
  void send_to(peer& it, std::uint64_t ticks, bool asks) {
    int sent = 0;
    // Errors are not checked: a host that is lost may refuse a new connection, and its process is silent then.
    if (MPI_Test(&it.sending, &sent, MPI_STATUS_IGNORE) != MPI_SUCCESS || !sent) return;  // the last is under way
    it.out = own_;
    it.out.ticks = ticks, it.out.asks = asks;
    ++pulses_;
    MPI_Isend(&it.out, static_cast<int>(sizeof it.out), MPI_BYTE, it.rank, tag, messages_, &it.sending);
  }
  void receive(clock::time_point now, std::uint64_t ticks) {
    for (int here = 0;;) {
      check(MPI_Test(&receiving_, &here, MPI_STATUS_IGNORE), "MPI_Test");
      if (!here) return;
      const pulse came = arriving_;
      post();
      ++pulses_;
      for (peer& it : peers_) {
        if (it.rank != came.rank) continue;
        it.ticks = came.ticks, it.heard = now;
        if (came.asks) send_to(it, ticks, false);
      }
    }
  }
  GPIPE_OUT_OF_LINE void post() {
    check(MPI_Irecv(&arriving_, static_cast<int>(sizeof arriving_), MPI_BYTE, MPI_ANY_SOURCE, tag, messages_,
                    &receiving_),
          "MPI_Irecv");
  }

  quiet_open_mpi quiet_;
  failure_broadcast causes_;
  MPI_Comm messages_;
  std::vector<std::string> names_;
  std::vector<peer> peers_;
  pulse own_{}, arriving_{};
  MPI_Request receiving_ = MPI_REQUEST_NULL;
  clock::time_point pulsed_ = clock::now(), asked_{};
  tcp_traffic traffic_;
  std::uint64_t bytes_ = 0, pulses_ = 0;
};

}  // namespace gpipe::mpi
