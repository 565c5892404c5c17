#pragma once

#include <gpipe/transport/mpi/failure_broadcast.hpp>
#include <gpipe/transport/mpi/signal.hpp>

#include <sched.h>
#include <signal.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <thread>
#include <utility>
#include <vector>

namespace gpipe::mpi {

/// Looks at what comes while a process waits for something else.
class listener {
 public:
  virtual void hear() = 0;

 protected:
  ~listener() = default;
};

/// How a process waits for others: it asks MPI, which is what makes messages move, and looks whether all is well.
///
///     ask, ask ...   yield where there are more processes than cores   sleep a little
///     beat           a loss or a throw is in the ledger: leave         every 2 ms: has a process ended?
///                                                                      every 1/4 deadline: has anybody made progress?
class progress_engine {
 public:
  using clock = std::chrono::steady_clock;

  /// `ranks[i]`: the rank of the host's i-th process; `others`: carries causes to and from other hosts, if there are.
  GPIPE_COLD progress_engine(shared_status& book, std::vector<int> ranks, failure_broadcast* others)
      : book_(book), others_(others), ranks_(std::move(ranks)), beats_(ranks_.size()), seen_(ranks_.size()) {
    crowded_ = wait_limits::of(book.count()).yields;
    for (int i = 0; i < book.count(); ++i) seen_[index(i)] = !gone(i);  // not from within another container
  }

  void attend(listener* to) noexcept { listener_ = to; }
  void expect(std::chrono::nanoseconds deadline) noexcept { deadline_ = deadline; }
  std::chrono::nanoseconds deadline() const noexcept { return deadline_; }

  /// What all processes do together, and this one has behind it: who has as much may leave.
  std::uint64_t round() const noexcept { return round_; }
  void pass() noexcept {
    book_.mine().round.store(++round_, std::memory_order_release);
    book_.mine().tick();
  }
  /// Rank 0, when all have come: from here on the round ends for all, whoever is lost.
  void conclude() {
    look();
    if (!book_.conclude(round_ + 1)) throw gpipe::detail::interrupted{};
  }
  /// In a handler: after a loss the round may have been concluded nevertheless, and then this waits for the last word
  /// of it, until `ready()`. Throws on else. (Between hosts nobody can tell: there a loss is the end.)
  template <class Ready>
  void outlast(Ready ready) {
    const bool sees_rank_0 = ranks_[0] == 0;
    if (!sees_rank_0 || !book_.lost().is_there() || book_.give_up(round_ + 1)) throw;
    while (!ready()) {
      if (gone(0)) throw;
      book_.mine().beat();
      std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
  }
  /// Until the next word on it only a loss ends waits.
  void recover(bool now) noexcept { recovering_ = now, known_ = now ? round_ + rounds_of_recovery : 0; }
  /// The same; and that others leave the job is no loss.
  void leave(bool now) noexcept { recovering_ = leaving_ = now; }
  /// On other hosts they know that this process leaves.
  GPIPE_COLD void say_goodbye() noexcept {
    cause goodbye;
    goodbye.leaves = true, goodbye.rank = ranks_[index(book_.own())], goodbye.round = round_;
    if (others_ != nullptr) others_->send(goodbye);
  }

  /// Whether the host's i-th process knows of a loss, or is no more.
  bool knows(int i) noexcept { return book_.of(i).told.load() || !seen_[index(i)] || gone(i); }

  /// Throws `detail::interrupted` after a failure elsewhere.
  void look() {
    if (terminated()) [[unlikely]] find_end();
    if (others_ != nullptr) hear();
    if (listener_ != nullptr) listener_->hear();
    if (book_.lost().is_there()) [[unlikely]] throw gpipe::detail::interrupted{};
    if (const first_failure& thrown = book_.thrown(); thrown.is_there() && !recovering_) [[unlikely]]
      if (thrown.what.round <= round_) throw gpipe::detail::interrupted{};
  }
  /// A look while something else than a message is waited for.
  void poll() {
    book_.mine().beat();
    look();
    if (const auto now = clock::now(); now - glanced_ > std::chrono::milliseconds(2))
      glanced_ = now, find_end_of_others();
  }
  /// Tells everybody, unless somebody was first. `own`: of a loss, that the process ends by itself.
  void tell(const error& of, bool lost, bool own = false) noexcept {
    cause found(of, lost, round_);
    found.own = own;
    if (book_.put(found) && others_ != nullptr) others_->send(found);
  }

  /// Returns when `ready()`; `peer` is the rank that it depends on, -1: all. Throws `detail::interrupted`, after silence
  /// too, which is then in the ledger.
  template <class Ready>
  void await(Ready ready, wait_context what, int peer) {
    if (!ready()) wait([](void* it) { return (*static_cast<Ready*>(it))(); }, &ready, what, peer);
    book_.mine().tick();
  }

 private:
  /// Who was first, its cause, and the end: a process that is through may throw anew while others are not.
  static constexpr std::uint64_t rounds_of_recovery = 3;

  static std::size_t index(int i) { return static_cast<std::size_t>(i); }

  GPIPE_OUT_OF_LINE void wait(bool (*ready)(void*), void* it, const wait_context& what, int peer) {
    using namespace std::chrono_literals;
    const auto begin = clock::now();
    auto last = begin, looked = begin, quarter = begin;
    std::uint64_t seen = 0;
    for (int quarters = -1;;) {
      for (int i = 0; i < (crowded_ ? 2 : 16); ++i) {
        gpipe::detail::pause();
        if (ready(it)) return;
      }
      book_.mine().beat();
      look();
      auto now = clock::now();
      if (now - looked > 2ms) looked = now, find_end_of_others();
      if (quarters < 0 || now - quarter >= deadline_ / 4) {
        const auto sum = ticks();
        const bool moved = quarters < 0 || sum != seen;
        quarters = moved ? 0 : quarters + 1;
        if (moved) note_beats();
        if (quarters == 4) silence(what, peer);
        seen = sum, quarter = now;
      }
      if (crowded_ || now - begin > 300us) {
        // Somebody else had the core meanwhile: who yields to him again waits for his whole slice.
        if (now - last > 20us + (crowded_ ? 0us : 100us) || now - begin > 5ms) std::this_thread::sleep_for(1us);
        else sched_yield();
        now = clock::now();
      }
      last = now;
    }
  }

  std::uint64_t ticks() noexcept {
    std::uint64_t sum = 0;
    for (int i = 0; i < book_.count(); ++i) sum += book_.of(i).ticks.load(std::memory_order_relaxed);
    return sum;
  }
  void note_beats() noexcept {
    for (int i = 0; i < book_.count(); ++i) beats_[index(i)] = book_.of(i).beats.load(std::memory_order_relaxed);
  }

  // What was thrown before the last recovery is known.
  GPIPE_COLD void hear() {
    while (const cause* heard = others_->receive())
      if (heard->leaves) left_elsewhere_.push_back({heard->rank, heard->round});
      else if (heard->lost || heard->round >= (std::max)(known_, round_)) book_.put(*heard);
  }

  bool gone(int i) noexcept { return kill(book_.of(i).process.load(), 0) != 0 && errno == ESRCH; }

  GPIPE_COLD location where(int i) {
    const process_status& its = book_.of(i);
    return {.rank = ranks_[index(i)], .stage = its.stage.load(), .micro_batch = its.micro_batch.load(),
            .action = its.action.get()};
  }

  GPIPE_COLD bool find_end_of_others() {
    for (int i = 0; i < book_.count(); ++i) {
      if (i == book_.own() || !seen_[index(i)]) continue;
      const bool left = !leaving_ && book_.of(i).left.load() && book_.of(i).round.load() <= round_;
      if (!left && !gone(i)) continue;
      tell_end(book_.of(i).process.load(), left, book_.of(i).round.load(), where(i));
      return true;
    }
    for (const auto& [rank, round] : left_elsewhere_)
      if (!leaving_ && round <= round_) return tell_end(0, true, round, {.rank = rank}), true;
    return false;
  }
  GPIPE_COLD void tell_end(int process, bool left, std::uint64_t round, const location& its) {
    const std::string id = process == 0 ? "the process" : gpipe::detail::concat({"the process ", process});
    const char* const how = !left        ? " has ended while others wait for it"
                            : round == 0 ? " left the job before the training began"
                                         : " leaves the job while others wait for it";
    const char* const whole = others_ == nullptr ? "; no update was left half-applied" : "";  // certain on one host
    tell(error(id + how, std::string("see what it wrote, or who ended it") + whole, its), true);
  }

  /// We are asked to end: because another process has ended, or by somebody who means us.
  GPIPE_COLD void find_end() {
    for (int i = 0; i < 200 && !book_.lost().is_there() && !find_end_of_others(); ++i) {
      if (others_ != nullptr) hear();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    if (!book_.lost().is_there()) end_by_default();
  }

  [[noreturn]] GPIPE_COLD void silence(const wait_context& what, int peer) {
    int culprit = -1;
    for (int i = 0; i < book_.count(); ++i) {
      const bool still = i != book_.own() && book_.of(i).beats.load(std::memory_order_relaxed) == beats_[index(i)];
      if (still && (culprit < 0 || ranks_[index(i)] == peer)) culprit = i;
    }
    const std::string told = gpipe::detail::duration_text(deadline_);
    if (culprit >= 0)
      tell(error(gpipe::detail::concat({"the process ", book_.of(culprit).process.load(),
                                        " shows no sign of life, and no other made progress for ", told}),
                 "see what it does, or raise the deadline", where(culprit)),
           true);
    else if (peer >= 0 && std::find(ranks_.begin(), ranks_.end(), peer) == ranks_.end())
      tell(error(gpipe::detail::concat({"rank ", ranks_[index(book_.own())], " waits for the process (", what.action,
                                        "), which is on another host, and nothing came for ", told}),
                 "see whether it lives, and what it waits for itself, or raise the deadline", {.rank = peer}),
           true);
    else
      tell(error(gpipe::detail::concat({"waits", peer < 0 ? "" : " for rank ", peer < 0 ? "" : std::to_string(peer),
                                        ", and no process made progress for ", told}),
                 "every process waits: look for programs that do not match",
                 {.rank = ranks_[index(book_.own())], .stage = what.stage, .micro_batch = what.micro_batch,
                  .action = what.action}),
           true);
    throw gpipe::detail::interrupted{};
  }

  shared_status& book_;
  failure_broadcast* others_;
  listener* listener_ = nullptr;
  std::vector<int> ranks_;
  std::vector<std::uint64_t> beats_;
  std::vector<char> seen_;  // whether the process can be seen from here
  std::vector<std::pair<int, std::uint64_t>> left_elsewhere_;  // ranks, and what they had behind them
  std::chrono::nanoseconds deadline_ = wait_limits{}.deadline;
  clock::time_point glanced_{};
  std::uint64_t round_ = 0;
  std::uint64_t known_ = 0;  // what was thrown in a round before is what is recovered from
  bool crowded_ = false, recovering_ = false, leaving_ = false;
};

}  // namespace gpipe::mpi
