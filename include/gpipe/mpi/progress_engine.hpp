#pragma once

#include <gpipe/mpi/call_deadline.hpp>
#include <gpipe/mpi/remote_hosts.hpp>

#include <atomic>
#include <cstdint>
#include <sched.h>
#include <signal.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace gpipe::mpi {

/// Called on every poll, to handle messages that arrive while the process waits for others.
class poll_listener {
 public:
  virtual void on_poll() = 0;

 protected:
  ~poll_listener() = default;
};

/// Waits for other processes: tests the requests of this process, which is how MPI makes progress, and checks for
/// failures.
///
///     test, test ... yield if there are more processes than cores      sleep a little
///     beat           a loss or a throw is in the status: leave         every 2 ms: has a process ended?
///                                                                      every 1/4 deadline: has any made progress?
///                                                                      and a pulse to other hosts
///
/// Several threads of a process may wait at once. One of them at a time calls MPI.
class progress_engine {
 public:
  using clock = std::chrono::steady_clock;

  /// `ranks[i]`: the rank of the host's i-th process; `other_hosts`: null if there are none.
  GPIPE_COLD progress_engine(shared_status& status, std::vector<int> ranks, remote_hosts* other_hosts)
      : status_(status),
        other_hosts_(other_hosts),
        ranks_(std::move(ranks)),
        beats_(ranks_.size()),
        visible_(ranks_.size()) {
    set_workers(status.count());
    for (int i = 0; i < status.count(); ++i) visible_[index(i)] = !has_ended(i);  // false in another container
  }

  /// The thread that holds this lock may call MPI, and the functions of this class.
  [[nodiscard]] std::unique_lock<std::recursive_mutex> turn() { return std::unique_lock(turn_); }
  /// The number of workers of all processes of the host.
  void set_workers(int count) { oversubscribed_ = wait_limits::of(count).yields; }

  void set_listener(poll_listener* listener) noexcept { listener_ = listener; }
  void expect(std::chrono::nanoseconds deadline) noexcept { deadline_ = deadline; }
  std::chrono::nanoseconds deadline() const noexcept { return deadline_; }

  /// The collective rounds that this process has completed. Another process that has completed as many may leave.
  std::uint64_t round() const noexcept { return round_; }
  void complete_round() noexcept {
    status_.mine().round.store(++round_, std::memory_order_release);
    status_.mine().tick();
  }
  /// Called by rank 0 when all have arrived: from then on the round ends for all, even if a process is lost.
  void conclude() {
    check_failures();
    if (!status_.conclude(round_ + 1)) throw gpipe::detail::interrupted{};
  }
  /// Called in a handler: after a loss the round may have been concluded nevertheless. If so, waits until `ready()` for
  /// the round's last message; otherwise rethrows. (Between hosts this is unknown, and a loss ends the round.)
  template <class Ready>
  void wait_for_conclusion(Ready ready) {
    const bool sees_rank_0 = ranks_[0] == 0;
    if (!sees_rank_0 || !status_.lost().is_set() || status_.give_up(round_ + 1)) throw;
    while (!ready()) {
      if (has_ended(0)) throw;
      status_.mine().beat();
      std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
  }
  /// While set, only a loss ends waits.
  void set_recovering(bool recovering) noexcept {
    recovering_ = recovering, recovered_ = recovering ? round_ + rounds_of_recovery : 0;
  }
  /// The same, and a process that leaves the job is no loss.
  void leave(bool leaving) noexcept { recovering_ = leaving_ = leaving; }
  /// Reports to other hosts that this process leaves.
  GPIPE_COLD void send_goodbye() noexcept {
    cause goodbye;
    goodbye.leaves = true, goodbye.rank = ranks_[index(status_.own())], goodbye.round = round_;
    if (other_hosts_ != nullptr) other_hosts_->causes().send(goodbye);
  }

  /// Whether a process has reported that it prints the loss.
  GPIPE_COLD bool loss_is_printed() noexcept {
    const auto turn = this->turn();
    try {
      if (other_hosts_ != nullptr) poll_hosts();
    } catch (...) {  // the messages of MPI are late, and this one may be, too
    }
    for (int i = 0; i < status_.count(); ++i) printed_ = printed_ || status_.of(i).prints_loss.load();
    return printed_;
  }
  GPIPE_COLD void print_loss() noexcept {
    const auto turn = this->turn();
    status_.mine().prints_loss = true;
    cause printed;
    printed.printed = true;
    if (other_hosts_ != nullptr) other_hosts_->causes().send(printed);
  }
  /// Returns whether rank 0 prints the loss. It may be in a long kernel, and mpirun ends it a second after SIGTERM.
  GPIPE_COLD bool await_print() noexcept {
    using namespace std::chrono_literals;
    auto end = clock::now() + (std::min<std::chrono::nanoseconds>)(deadline_, 1s);
    for (bool shorter = false; !loss_is_printed();) {
      if (terminated() && !std::exchange(shorter, true)) end = (std::min)(end, clock::now() + 500ms);
      if (clock::now() >= end) return false;
      status_.mine().beat();
      std::this_thread::sleep_for(1ms);
    }
    return true;
  }

  /// Whether the host's i-th process has seen a loss or has ended.
  bool knows_loss(int i) noexcept { return status_.of(i).knows_loss.load() || !visible_[index(i)] || has_ended(i); }

  /// Throws `detail::interrupted` after a failure elsewhere.
  void check_failures() {
    const auto turn = this->turn();
    if (terminated()) [[unlikely]]
      find_termination();
    if (other_hosts_ != nullptr) poll_hosts();
    if (listener_ != nullptr) listener_->on_poll();
    if (status_.lost().is_set()) [[unlikely]]
      throw gpipe::detail::interrupted{};
    if (const first_failure& thrown = status_.thrown(); thrown.is_set() && !recovering_) [[unlikely]]
      if (thrown.reason.round <= round_) throw gpipe::detail::interrupted{};
  }
  /// The same while the process waits for something other than a message.
  void poll() {
    const auto turn = this->turn();
    status_.mine().beat();
    check_failures();
    find_ended_process_since(clock::now());
  }
  /// Reports that a kernel of this process has run for long; without a stage: that none has. Does nothing while a
  /// thread is in MPI, since the next call follows soon.
  void runs_long(const detail::location& kernel) noexcept {
    process_status& status = status_.mine();
    if (kernel.stage < 0) return status.runs_long.store(false);
    const std::unique_lock turn(turn_, std::try_to_lock);
    if (!turn) return;
    status.stage = kernel.stage, status.micro_batch = kernel.micro_batch;
    status.action.set(kernel.action);
    status.layer.set(kernel.layer);
    status.runs_long.store(true);
  }
  /// Reports a failure to all processes, unless another one was first. `reports_itself`: this process is lost because
  /// it ends by itself, and can still print the cause.
  void report(const error& failure, bool lost, bool reports_itself = false) noexcept {
    const auto turn = this->turn();
    cause found(failure, lost, round_);
    found.reports_itself = reports_itself;
    if (other_hosts_ != nullptr && found.rank >= 0) found.host.set(other_hosts_->name_of(found.rank));
    if (status_.put(found) && other_hosts_ != nullptr) other_hosts_->causes().send(found);
  }

  /// Returns when `ready()`, which depends on rank `peer`, or on all ranks if `peer` is -1. Throws
  /// `detail::interrupted` after a failure, and after a deadline without progress, which it reports.
  template <class Ready>
  void await(Ready ready, wait_context context, int peer) {
    auto turn = this->turn();
    if (!ready()) wait([](void* argument) { return (*static_cast<Ready*>(argument))(); }, &ready, context, peer, turn);
    status_.mine().tick();
  }
  /// The same for a request of MPI.
  void await(MPI_Request& request, wait_context context, int peer = -1) {
    await([&] { return is_complete(request); }, context, peer);
  }
  static bool is_complete(MPI_Request& request) {
    int done = 0;
    check(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "MPI_Test");
    return done != 0;
  }

 private:
  /// The lowest rank, its cause, and the barrier: a process that has recovered may throw again while others recover.
  static constexpr std::uint64_t rounds_of_recovery = 3;

  static std::size_t index(int i) { return static_cast<std::size_t>(i); }

  GPIPE_OUT_OF_LINE void wait(bool (*ready)(void*), void* argument, const wait_context& context, int peer,
                              std::unique_lock<std::recursive_mutex>& turn) {
    using namespace std::chrono_literals;
    const auto begin = clock::now();
    auto last_time = begin;
    const struct waiting {
      progress_engine& owner;
      explicit waiting(progress_engine& engine) : owner(engine) { ++owner.waiting_; }
      ~waiting() { owner.watches_ = --owner.waiting_ > 0 && owner.watches_; }
    } registered(*this);
    while (true) {
      for (int i = 0; i < (oversubscribed_ ? 2 : 16); ++i) {
        turn.unlock();
        gpipe::detail::pause();
        turn.lock();
        if (ready(argument)) return;
      }
      status_.mine().beat();
      check_failures();
      auto time = clock::now();
      find_ended_process_since(time);
      if (!std::exchange(watches_, true)) note_progress(time, ticks());
      else if (time - quarter_ >= deadline_ / 4) watch_progress(time, context, peer);
      if (oversubscribed_ || time - begin > 300us) {
        turn.unlock();
        // Another process had the core meanwhile. A second yield would last its whole time slice.
        if (time - last_time > 20us + (oversubscribed_ ? 0us : 100us) || time - begin > 5ms)
          std::this_thread::sleep_for(1us);
        else sched_yield();
        turn.lock();
        time = clock::now();
      }
      last_time = time;
    }
  }

  // For all waits of this process together: a wait that begins is progress.
  GPIPE_OUT_OF_LINE void watch_progress(clock::time_point time, const wait_context& context, int peer) {
    if (other_hosts_ != nullptr && other_hosts_->bytes_move()) status_.mine().tick();
    if (const auto sum = ticks(); sum != seen_) return note_progress(time, sum);
    quarter_ = time;
    if (++quarters_ == 4) fail_without_progress(context, peer);
  }
  void note_progress(clock::time_point time, std::uint64_t sum) noexcept {
    seen_ = sum, quarter_ = time, quarters_ = 0;
    note_beats();
  }
  std::uint64_t ticks() noexcept {
    std::uint64_t sum = other_hosts_ != nullptr ? other_hosts_->ticks() : 0;
    for (int i = 0; i < status_.count(); ++i) sum += status_.of(i).ticks.load(std::memory_order_relaxed);
    return sum;
  }
  void note_beats() noexcept {
    for (int i = 0; i < status_.count(); ++i) beats_[index(i)] = status_.of(i).beats.load(std::memory_order_relaxed);
  }

  void poll_hosts() {
    other_hosts_->poll(clock::now(), deadline_ / 4, status_.mine().ticks.load(std::memory_order_relaxed));
    receive_causes();
  }
  // A throw from before the last recovery is ignored.
  void receive_causes() {
    while (const cause* found = other_hosts_->causes().receive())
      if (found->printed) printed_ = true;
      else if (found->leaves) left_elsewhere_.push_back({found->rank, found->round});
      else if (found->lost || found->round >= (std::max)(recovered_, round_)) status_.put(*found);
  }

  bool has_ended(int i) noexcept { return kill(status_.of(i).process.load(), 0) != 0 && errno == ESRCH; }

  // change: an error location
  GPIPE_COLD detail::location where(int i) {
    const process_status& status = status_.of(i);
    return {.layer = status.runs_long ? status.layer.get() : std::string(),
            .rank = ranks_[index(i)],
            .stage = status.stage.load(),
            .micro_batch = status.micro_batch.load(),
            .action = status.action.get()};
  }

  void find_ended_process_since(clock::time_point time) {
    if (time - polled_ > std::chrono::milliseconds(2)) polled_ = time, find_ended_process();
  }
  GPIPE_COLD bool find_ended_process() {
    for (int i = 0; i < status_.count(); ++i) {
      if (i == status_.own() || !visible_[index(i)]) continue;
      const bool left = !leaving_ && status_.of(i).left.load() && status_.of(i).round.load() <= round_;
      if (!left && !has_ended(i)) continue;
      report_end(status_.of(i).process.load(), left, status_.of(i).round.load(), where(i));
      return true;
    }
    for (const auto& [rank, round] : left_elsewhere_)
      if (!leaving_ && round <= round_) return report_end(0, true, round, {.rank = rank}), true;
    return false;
  }
  GPIPE_COLD void report_end(int process, bool left, std::uint64_t round, const detail::location& place) {
    const std::string id = process == 0 ? "the process" : gpipe::detail::concat({"the process ", process});
    const char* const event = !left        ? " has ended while others wait for it"
                              : round == 0 ? " left the job before the training began"
                                           : " leaves the job while others wait for it";
    const char* const whole =
        other_hosts_ == nullptr ? "; no update was left half-applied" : "";  // certain on one host
    report(error(id + event, std::string("see its output, and what ended it") + whole, place), true);
  }

  /// SIGTERM has arrived: because another process has ended, or for this process alone. A process on another host that
  /// does not answer is taken for the ended one; mpirun waits for a second before it sends SIGKILL.
  GPIPE_COLD void find_termination() {
    const int limit_ms = other_hosts_ == nullptr ? 200 : 500;
    if (other_hosts_ != nullptr) other_hosts_->ask(status_.mine().ticks);
    for (int i = 0; i < limit_ms && !status_.lost().is_set() && !find_ended_process(); ++i) {
      if (other_hosts_ != nullptr) poll_hosts();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    if (!status_.lost().is_set() && other_hosts_ != nullptr) find_unanswered(limit_ms);
    if (!status_.lost().is_set()) end_by_default();
  }
  GPIPE_COLD void find_unanswered(int ms) {
    const std::vector<int> silent = other_hosts_->without_answer();
    if (silent.empty()) return;
    std::string more;
    for (std::size_t i = 1; i < silent.size() && i < 8; ++i)
      more += gpipe::detail::concat({i == 1 ? "; nor do ranks " : ", ", silent[i]});
    report(error(gpipe::detail::concat({"SIGTERM has come, and the process does not answer for ", ms, " ms", more}),
                 "see what ended it, or its host", {.rank = silent[0]}),
           true);
  }

  [[noreturn]] GPIPE_COLD void fail_without_progress(const wait_context& context, int peer) {
    int silent = -1;
    for (int i = 0; i < status_.count(); ++i) {
      const bool still = i != status_.own() && status_.of(i).beats.load(std::memory_order_relaxed) == beats_[index(i)];
      if (still && (silent < 0 || ranks_[index(i)] == peer)) silent = i;
    }
    const std::string limit = gpipe::detail::duration_text(deadline_);
    int kernel = -1;  // of a process with several workers, some of which may wait
    for (int i = 0; i < status_.count(); ++i)
      if (status_.of(i).runs_long && (kernel < 0 || ranks_[index(i)] == peer)) kernel = i;
    const int elsewhere =
        silent >= 0 || other_hosts_ == nullptr ? -1 : other_hosts_->silent_since(clock::now() - deadline_ / 2, peer);
    if (kernel >= 0)
      report(error(gpipe::detail::concat({"a kernel of the process ", status_.of(kernel).process.load(),
                                          " has not returned, and no process made progress for ", limit}),
                   "mend the kernel, or raise the deadline if it takes that long", where(kernel)),
             true);
    else if (silent >= 0)
      report(error(gpipe::detail::concat({"the process ", status_.of(silent).process.load(),
                                          " shows no sign of life, and no other made progress for ", limit}),
                   "see what it does, or raise the deadline", where(silent)),
             true);
    else if (elsewhere >= 0)
      report(error(gpipe::detail::concat({"the process, which is on another host, shows no sign of life, and no other ",
                                          "made progress for ", limit, " (rank ", ranks_[index(status_.own())],
                                          " waits: ", context.action, ")"}),
                   "see whether its host and the network are up and what it does, or raise the deadline",
                   {.rank = elsewhere}),
             true);
    else
      report(error(gpipe::detail::concat({"waits", peer < 0 ? "" : " for rank ", peer < 0 ? "" : std::to_string(peer),
                                          ", and no process made progress for ", limit}),
                   "every process waits; look for programs that do not match",
                   {.rank = ranks_[index(status_.own())],
                    .stage = context.stage,
                    .micro_batch = context.micro_batch,
                    .action = context.action}),
             true);
    throw gpipe::detail::interrupted{};
  }

  shared_status& status_;
  remote_hosts* other_hosts_;
  poll_listener* listener_ = nullptr;
  std::vector<int> ranks_;
  std::vector<std::uint64_t> beats_;
  std::vector<char> visible_;                                  // whether the process id is valid here
  std::vector<std::pair<int, std::uint64_t>> left_elsewhere_;  // ranks, and the rounds they had completed
  std::chrono::nanoseconds deadline_ = wait_limits{}.deadline;
  clock::time_point polled_{};
  std::recursive_mutex turn_;
  int waiting_ = 0;              // threads
  bool watches_ = false;         // whether the following are of this wait
  std::uint64_t seen_ = 0;       // ticks at the last check
  clock::time_point quarter_{};  // of the last check
  int quarters_ = 0;             // since the last progress
  std::uint64_t round_ = 0;
  std::uint64_t recovered_ = 0;  // a throw of an earlier round is the one that is recovered from
  bool oversubscribed_ = false, recovering_ = false, leaving_ = false;
  bool printed_ = false;  // the loss
};

}  // namespace gpipe::mpi
