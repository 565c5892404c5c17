#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <dlfcn.h>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gpipe/core/config.hpp>
#include <gpipe/mpi/hosts/tcp_traffic.hpp>
#include <gpipe/mpi/shared_status.hpp>

namespace gpipe::mpi {

/// Whether `opal_show_help` is a variable with the address of a function, by the text of MPI_Get_library_version.
/// It is one in Open MPI up to 5.0; from 6.0 on it is the function itself. Libraries of both kinds have the same
/// soname, so a program may run with another version than it was compiled with.
constexpr bool has_replaceable_help(std::string_view library_version) {
  constexpr std::string_view name = "Open MPI v";
  if (!library_version.starts_with(name)) return false;
  library_version.remove_prefix(name.size());
  const auto digit = [&](std::size_t i) {
    return i < library_version.size() && library_version[i] >= '0' && library_version[i] <= '9';
  };
  if (!digit(0) || digit(1)) return false;
  const char major = library_version[0];
  return major < '5' || (major == '5' && library_version.starts_with("5.0."));
}

/// While this object exists, Open MPI up to 5.0 prints no messages about connections that end. It sends each message to
/// its daemon on this host and waits for the answer in MPI_Test. A daemon that has lost mpirun or another host ends
/// without an answer, so the process could not report the loss and would not end. Later versions have no such switch
/// and print their messages.
class quiet_open_mpi {
 public:
  GPIPE_COLD quiet_open_mpi() {
    char version[MPI_MAX_LIBRARY_VERSION_STRING];
    int length = 0;
    check(MPI_Get_library_version(version, &length), "MPI_Get_library_version");
    if (!has_replaceable_help({version, static_cast<std::size_t>(length)})) return;
    help_ = static_cast<print*>(dlsym(RTLD_DEFAULT, "opal_show_help"));
    if (help_ == nullptr) return;
    before_ = *help_;
    *help_ = drop;
  }
  ~quiet_open_mpi() {
    if (help_ != nullptr) *help_ = before_;
  }
  quiet_open_mpi(const quiet_open_mpi&) = delete;
  quiet_open_mpi& operator=(const quiet_open_mpi&) = delete;

 private:
  using print = int (*)(const char* file, const char* topic, int has_header, ...);
  static int drop(const char*, const char*, int, ...) { return 0; }

  print* help_ = nullptr;
  print before_ = nullptr;
};

/// Sends causes of failures to all processes on other hosts, which share no memory with this one. Each process has a
/// receive posted for them.
class failure_broadcast {
 public:
  /// Nothing else may use `failures` with tag 0; `elsewhere` has the ranks on other hosts.
  GPIPE_COLD failure_broadcast(MPI_Comm failures, std::vector<int> elsewhere)
      : failures_(failures), elsewhere_(std::move(elsewhere)) {
    post();
  }
  GPIPE_COLD ~failure_broadcast() {
    MPI_Cancel(&receiving_);
    MPI_Wait(&receiving_, MPI_STATUS_IGNORE);
    for (auto& pending : leaving_)  // MPI may still read it: a process that is lost takes no message
      if (!sent(*pending)) static_cast<void>(pending.release());
  }
  failure_broadcast(const failure_broadcast&) = delete;
  failure_broadcast& operator=(const failure_broadcast&) = delete;

  /// Does not wait for earlier messages, which a lost process never receives.
  GPIPE_COLD void send(const cause& reason) noexcept {
    std::erase_if(leaving_, [](const auto& pending) { return sent(*pending); });
    message& made = *leaving_.emplace_back(std::make_unique<message>());
    made.reason = reason;
    made.requests.resize(elsewhere_.size(), MPI_REQUEST_NULL);
    for (std::size_t i = 0; i < elsewhere_.size(); ++i)
      MPI_Isend(&made.reason, static_cast<int>(sizeof made.reason), MPI_BYTE, elsewhere_[i], 0, failures_,
                &made.requests[i]);
  }
  /// Whether all messages have left.
  GPIPE_COLD bool all_sent() noexcept {
    return std::all_of(leaving_.begin(), leaving_.end(), [](const auto& pending) { return sent(*pending); });
  }

  /// Returns a cause that has arrived, which is valid until the next call, or null.
  const cause* receive() {
    int arrived = 0;
    check(MPI_Test(&receiving_, &arrived, MPI_STATUS_IGNORE), "MPI_Test");
    if (!arrived) return nullptr;
    received_ = arriving_;
    post();
    return &received_;
  }

 private:
  struct message {
    cause reason{};
    std::vector<MPI_Request> requests{};
  };

  static bool sent(message& pending) noexcept {
    int complete = 0;
    MPI_Testall(static_cast<int>(pending.requests.size()), pending.requests.data(), &complete, MPI_STATUSES_IGNORE);
    return complete != 0;
  }
  GPIPE_COLD void post() {
    check(
        MPI_Irecv(&arriving_, static_cast<int>(sizeof arriving_), MPI_BYTE, MPI_ANY_SOURCE, 0, failures_, &receiving_),
        "MPI_Irecv");
  }

  MPI_Comm failures_;
  std::vector<int> elsewhere_;
  cause arriving_, received_;
  std::vector<std::unique_ptr<message>> leaving_;
  MPI_Request receiving_ = MPI_REQUEST_NULL;
};

/// The processes on other hosts, whose status this process cannot read. Causes of failures arrive as messages. A
/// process that polls sends a pulse to all others each quarter of a deadline, and answers requests:
///
///     rank 0    pulse   pulse   pulse   pulse                             rank 2 has sent nothing: it is lost
///     rank 1        pulse   pulse   pulse   pulse   waits for rank 2      alive, whoever waits for it
///     rank 2      pulse   its cable is out
class remote_hosts {
 public:
  using clock = std::chrono::steady_clock;

  /// `names[rank]`, or no names: all are on one host. Nothing else may use `messages`; `elsewhere` has the ranks on
  /// other hosts.
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

  /// Receives pulses, and sends one if `interval` has passed since the last. `ticks`: the progress of this process.
  void poll(clock::time_point time, std::chrono::nanoseconds interval, std::uint64_t ticks) {
    receive(time, ticks);
    if (time - pulsed_ < interval) return;
    pulsed_ = time;
    send(ticks, false);
  }
  /// The known progress of all processes on other hosts.
  std::uint64_t ticks() const noexcept {
    std::uint64_t sum = 0;
    for (const peer& process : peers_) sum += process.ticks;
    return sum;
  }
  /// Whether more bytes have moved over TCP since the last call than the pulses account for.
  GPIPE_COLD bool bytes_move() noexcept {
    constexpr std::uint64_t of_a_pulse = 256, of_all = 4096;
    const std::uint64_t bytes = traffic_.bytes(), before = std::exchange(bytes_, bytes);
    return bytes > before + of_all + of_a_pulse * std::exchange(pulses_, 0);
  }
  /// The rank of a process that has sent nothing since this time: `wanted` if it is one, else the lowest; -1: none.
  GPIPE_COLD int silent_since(clock::time_point since, int wanted) const noexcept {
    int found = -1;
    for (const peer& process : peers_)
      if (process.heard < since && (found < 0 || process.rank == wanted)) found = process.rank;
    return found;
  }

  /// Requests an answer from all processes on other hosts; none counts as heard until it has answered.
  GPIPE_COLD void ask(std::uint64_t ticks) {
    asked_ = clock::now();
    send(ticks, true);
  }
  GPIPE_COLD std::vector<int> without_answer() const {
    std::vector<int> found;
    for (const peer& process : peers_)
      if (process.heard < asked_) found.push_back(process.rank);
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
    for (peer& target : peers_) send_to(target, ticks, asks);
  }
  void send_to(peer& target, std::uint64_t ticks, bool asks) {
    int sent = 0;
    // Errors are not checked: a lost host may refuse a new connection, and then its process is silent.
    if (MPI_Test(&target.sending, &sent, MPI_STATUS_IGNORE) != MPI_SUCCESS || !sent) return;  // the last is in flight
    target.out = own_;
    target.out.ticks = ticks, target.out.asks = asks;
    ++pulses_;
    MPI_Isend(&target.out, static_cast<int>(sizeof target.out), MPI_BYTE, target.rank, tag, messages_, &target.sending);
  }
  void receive(clock::time_point time, std::uint64_t ticks) {
    for (int arrived = 0;;) {
      check(MPI_Test(&receiving_, &arrived, MPI_STATUS_IGNORE), "MPI_Test");
      if (!arrived) return;
      const pulse received = arriving_;
      post();
      ++pulses_;
      for (peer& process : peers_) {
        if (process.rank != received.rank) continue;
        process.ticks = received.ticks, process.heard = time;
        if (received.asks) send_to(process, ticks, false);
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
