#pragma once

// A job for tests, whose processes are threads. A thread in between, the wire, delivers messages late, in any order of
// slots, and loses one on demand.

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gpipe/core/error.hpp>
#include <gpipe/transport/contract/process_group.hpp>

namespace threaded {

using gpipe::channel_layout;
using gpipe::wait_context;

/// The state of a channel between two ranks.
struct channel {
  struct message {
    int sender_slot, samples;
  };
  struct slot {
    std::deque<message> under_way;  // in order
    bool posted = true, arrived = false;
    int samples = 0;
  };

  int from, to;
  std::optional<channel_layout> out{}, in{};
  std::vector<slot> memory_slots{};
  std::vector<int> leaving{};  // [sender's slot]: its messages that are under way

  void reset() {
    for (slot& s : memory_slots) s = {};
    std::fill(leaving.begin(), leaving.end(), 0);
  }
};

/// The state that the ranks share, protected by one mutex.
class job {
 public:
  explicit job(int ranks, std::uint32_t random = 1)
      : ranks_(ranks),
        random_(random),
        contributed_(index(ranks)),
        fingerprints_(index(ranks)),
        carried_(index(ranks)),
        wire_([this] { carry(); }) {}
  ~job() {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      ending_ = true;
    }
    condition_.notify_all();
    wire_.join();
  }

  int ranks() const { return ranks_; }
  /// Whether several threads of a rank may use it.
  bool takes_threads = true;
  /// Loses one message, once `messages` more have been delivered; never if negative.
  void lose_after(int messages) {
    const std::lock_guard<std::mutex> lock(mutex_);
    until_lost_ = messages;
  }
  /// How often a message was delivered before an earlier one of another slot.
  int overtaken() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return overtaken_;
  }

  /// The bytes that a rank has sent and received by channels.
  std::size_t carried(int rank) {
    const std::lock_guard<std::mutex> lock(mutex_);
    return carried_[index(rank)];
  }

  /// Runs `body(process_group&)` in every rank.
  void run(const std::function<void(gpipe::process_group&)>& body);

 private:
  friend class member;
  friend class sender;
  friend class receiver;
  friend class exchange;

  static std::size_t index(int i) { return static_cast<std::size_t>(i); }

  template <class Ready>
  void wait(std::unique_lock<std::mutex>& lock, wait_context what, const std::string& awaited, Ready ready) {
    while (!ready()) {
      if (cause_) throw gpipe::detail::interrupted{};
      const auto seen = progress_;
      if (condition_.wait_for(lock, deadline_) == std::cv_status::timeout && seen == progress_ && !ready() && !cause_)
        throw gpipe::error(gpipe::detail::concat({"waits for ", awaited, ", and no rank made progress"}), "",
                           {.stage = what.stage, .micro_batch = what.micro_batch, .action = what.action});
    }
  }
  void progressed() {
    ++progress_;
    condition_.notify_all();
  }

  // Both ranks make the ends of their channels in the same order.
  channel& make(int from, int to, const channel_layout& layout, bool sends) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto open = std::find_if(channels_.begin(), channels_.end(), [&](const auto& c) {
      return c->from == from && c->to == to && !(sends ? c->out : c->in);
    });
    channel& c =
        open != channels_.end() ? **open : *channels_.emplace_back(std::make_unique<channel>(channel{from, to}));
    (sends ? c.out : c.in) = layout;
    c.memory_slots.resize(index(*std::max_element(layout.receiver_slot.begin(), layout.receiver_slot.end()) + 1));
    if (sends) c.leaving.resize(index(*std::max_element(layout.sender_slot.begin(), layout.sender_slot.end()) + 1));
    progressed();  // a message may wait for this end already
    return c;
  }
  void remove(channel& c, bool sends) {
    const std::lock_guard<std::mutex> lock(mutex_);
    (sends ? c.out : c.in).reset();
    if (!c.out && !c.in) std::erase_if(channels_, [&c](const auto& it) { return it.get() == &c; });
  }

  /// Returns the bytes that each rank contributes.
  std::vector<std::vector<std::byte>> gather(int rank, std::vector<std::byte> mine, wait_context what) {
    std::unique_lock<std::mutex> lock(mutex_);
    if (cause_) throw gpipe::detail::interrupted{};
    const auto round = round_;
    contributed_[index(rank)] = std::move(mine);
    if (++arrived_ == ranks_) {
      arrived_ = 0;
      ++round_;
      all_ = contributed_;
      progressed();
      return all_;
    }
    try {
      wait(lock, what, "the other ranks", [&] { return round_ != round; });
    } catch (...) {
      --arrived_;
      throw;
    }
    return all_;  // of this round: the next one needs this rank
  }

  // The calls of each rank, in order. The later rank of two compares them.
  void enter(int rank, gpipe::collective_kind what, std::span<const gpipe::agreed_value> values) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (cause_) throw gpipe::detail::interrupted{};
    fingerprints_[index(rank)].push_back({what, values});
    for (int r = 1; r < ranks_ && !cause_; ++r)
      if (auto& first = fingerprints_[0], &other = fingerprints_[index(r)]; rank == 0 || rank == r)
        if (const std::size_t n = fingerprints_[index(rank)].size(); n <= first.size() && n <= other.size())
          if (!(first[n - 1] == other[n - 1])) {
            const gpipe::error found = first[n - 1].difference(other[n - 1], r, values);
            fail(r, found);
          }
    if (cause_) throw gpipe::detail::interrupted{};
  }

  // The wire: delivers any message that can arrive now, and sometimes none for a while.
  void carry() {
    std::unique_lock<std::mutex> lock(mutex_);
    std::vector<std::pair<channel*, int>> ready;
    while (!ending_) {
      ready.clear();
      for (const auto& c : channels_)
        for (int k = 0; c->out && c->in && k < static_cast<int>(c->memory_slots.size()); ++k)
          if (const auto& s = c->memory_slots[index(k)]; s.posted && !s.arrived && !s.under_way.empty())
            ready.push_back({c.get(), k});
      random_ = random_ * 1664525u + 1013904223u;
      if (ready.empty() || cause_) {
        condition_.wait(lock);
      } else if (random_ >> 30 == 0) {
        condition_.wait_for(lock, std::chrono::microseconds(random_ >> 24));
      } else {
        const std::size_t which = (random_ >> 8) % ready.size();
        overtaken_ += which > 0;
        arrive(*ready[which].first, ready[which].second);
      }
    }
  }
  void arrive(channel& c, int k) {
    auto& s = c.memory_slots[index(k)];
    const auto [sender_slot, samples] = s.under_way.front();
    s.under_way.pop_front();
    if (until_lost_ >= 0 && until_lost_-- == 0) return fail(c.to, {"a message was lost", "check the wire"});
    for (std::size_t v = 0; v < c.out->values.size(); ++v) {
      const gpipe::buffer_layout &from = c.out->values[v], &to = c.in->values[v];
      std::memcpy(to.base + to.stride * index(k), from.base + from.stride * index(sender_slot),
                  from.row * index(samples));
      for (const int rank : {c.from, c.to}) carried_[index(rank)] += from.row * index(samples);
    }
    --c.leaving[index(sender_slot)];
    s.samples = samples;
    s.arrived = true, s.posted = false;
    progressed();
  }
  void fail(int rank, const gpipe::error& cause) {
    if (cause_) return;
    gpipe::detail::location at = cause.where();
    at.rank = rank;
    cause_.emplace(cause.wrong(), cause.remedy(), at);
    progressed();
  }

  /// Returns when all ranks are here and no message is under way; the last rank clears the cause.
  gpipe::error recover() {
    std::unique_lock<std::mutex> lock(mutex_);
    if (!cause_) throw std::logic_error("nothing has failed");
    gpipe::error first(cause_->wrong(), cause_->remedy(), cause_->where());  // a copy would share its text
    const auto round = recoveries_;
    if (++recovering_ == ranks_) {
      for (const auto& c : channels_) c->reset();
      for (auto& list : fingerprints_) list.clear();
      cause_.reset();
      recovering_ = arrived_ = 0;
      ++recoveries_;
      progressed();
    } else {
      condition_.wait(lock, [&] { return recoveries_ != round; });
    }
    return first;
  }

  const int ranks_;
  std::uint32_t random_;
  std::mutex mutex_;
  std::condition_variable condition_;
  std::chrono::nanoseconds deadline_ = std::chrono::seconds(60);
  std::vector<std::unique_ptr<channel>> channels_;
  std::vector<std::vector<std::byte>> contributed_, all_;
  std::vector<std::vector<gpipe::call_fingerprint>> fingerprints_;  // [rank], since the last failure
  std::vector<std::size_t> carried_;                                // [rank]: bytes sent and received
  std::optional<gpipe::error> cause_;
  std::uint64_t progress_ = 0, round_ = 0, recoveries_ = 0;
  int arrived_ = 0, recovering_ = 0, until_lost_ = -1, overtaken_ = 0;
  bool ending_ = false;
  std::thread wire_;
};

class sender final : public gpipe::sending_end {
 public:
  sender(job& of, int rank, const channel_layout& layout)
      : job_(of), layout_(layout), channel_(of.make(rank, layout.peer, layout, true)) {}
  ~sender() override { job_.remove(channel_, true); }

  void acquire(int m, wait_context what) override {
    std::unique_lock<std::mutex> lock(job_.mutex_);
    const int sender_slot = layout_.sender_slot[job::index(m)];
    job_.wait(lock, what, gpipe::detail::concat({"rank ", layout_.peer, " to take slot ", sender_slot}),
              [&] { return channel_.leaving[job::index(sender_slot)] == 0; });
  }
  void publish(int m, int samples) override {
    const std::lock_guard<std::mutex> lock(job_.mutex_);
    const int sender_slot = layout_.sender_slot[job::index(m)];
    ++channel_.leaving[job::index(sender_slot)];
    channel_.memory_slots[job::index(layout_.receiver_slot[job::index(m)])].under_way.push_back({sender_slot, samples});
    job_.progressed();
  }

 private:
  job& job_;
  channel_layout layout_;
  channel& channel_;
};

class receiver final : public gpipe::receiving_end {
 public:
  receiver(job& of, int rank, const channel_layout& layout)
      : job_(of), layout_(layout), channel_(of.make(layout.peer, rank, layout, false)) {}
  ~receiver() override { job_.remove(channel_, false); }

  int consume(int m, wait_context what) override {
    std::unique_lock<std::mutex> lock(job_.mutex_);
    const int k = layout_.receiver_slot[job::index(m)];
    auto& s = channel_.memory_slots[job::index(k)];
    job_.wait(lock, what, gpipe::detail::concat({"rank ", layout_.peer, " to fill slot ", k}),
              [&s] { return s.arrived; });
    s.arrived = false;
    return s.samples;
  }
  bool arrived(int m) override {
    const std::lock_guard<std::mutex> lock(job_.mutex_);
    return channel_.memory_slots[job::index(layout_.receiver_slot[job::index(m)])].arrived;
  }
  void release(int m) override {
    const std::lock_guard<std::mutex> lock(job_.mutex_);
    channel_.memory_slots[job::index(layout_.receiver_slot[job::index(m)])].posted = true;
    job_.progressed();
  }

 private:
  job& job_;
  channel_layout layout_;
  channel& channel_;
};

class exchange final : public gpipe::all_gather {
 public:
  exchange(job& of, int rank, const std::vector<std::size_t>& sizes)
      : job_(of), rank_(rank), mine_(sizes[job::index(rank)]) {}

  std::byte* mine() override { return mine_.data(); }
  const std::byte* of(int rank) const override { return all_[job::index(rank)].data(); }
  void gather(wait_context what, const std::vector<gpipe::sending_end*>& settled) override {
    for (gpipe::sending_end* end : settled) end->acquire(0, what);
    all_ = job_.gather(rank_, mine_, what);
  }

 private:
  job& job_;
  int rank_;
  std::vector<std::byte> mine_;
  std::vector<std::vector<std::byte>> all_;
};

/// A rank.
class member final : public gpipe::process_group {
 public:
  member(job& of, int rank) : job_(of), rank_(rank) {}

  int rank() const noexcept override { return rank_; }
  int ranks() const noexcept override { return job_.ranks(); }
  bool takes_threads() const noexcept override { return job_.takes_threads; }
  void expect(std::chrono::nanoseconds deadline) override {
    const std::lock_guard<std::mutex> lock(job_.mutex_);
    job_.deadline_ = deadline;
  }
  void agree(gpipe::collective_kind what, std::span<const gpipe::agreed_value> values) override {
    try {
      enter(what, values);
      job_.gather(rank_, {}, {.action = "agree"});
    } catch (const gpipe::detail::interrupted&) {
      throw job_.recover();
    }
  }
  void enter(gpipe::collective_kind what, std::span<const gpipe::agreed_value> values) override {
    job_.enter(rank_, what, values);
  }
  std::unique_ptr<gpipe::sending_end> sender(const channel_layout& layout) override {
    return std::make_unique<threaded::sender>(job_, rank_, layout);
  }
  std::unique_ptr<gpipe::receiving_end> receiver(const channel_layout& layout) override {
    return std::make_unique<threaded::receiver>(job_, rank_, layout);
  }
  std::unique_ptr<gpipe::all_gather> make_all_gather(const std::vector<std::size_t>& sizes) override {
    return std::make_unique<exchange>(job_, rank_, sizes);
  }
  void begin(wait_context) override {
    const std::lock_guard<std::mutex> lock(job_.mutex_);
    if (job_.cause_) throw gpipe::detail::interrupted{};
    job_.progressed();
  }
  void poll() override {
    const std::lock_guard<std::mutex> lock(job_.mutex_);
    if (job_.cause_) throw gpipe::detail::interrupted{};
  }
  void broadcast(void* bytes, std::size_t size, int root, std::uint64_t) override {
    auto* const at = static_cast<std::byte*>(bytes);
    std::vector<std::byte> mine;
    if (rank_ == root) mine.assign(at, at + size);
    const auto all = job_.gather(rank_, std::move(mine), {.action = "broadcast"});
    std::copy(all[job::index(root)].begin(), all[job::index(root)].end(), at);
  }
  void fail(const gpipe::error& cause) noexcept override {
    const std::lock_guard<std::mutex> lock(job_.mutex_);
    job_.fail(rank_, cause);
  }
  gpipe::error recover() override { return job_.recover(); }
  bool leave(const gpipe::error& cause) noexcept override {
    fail(cause);
    return rank_ == 0;
  }
  bool lost() const noexcept override { return false; }

 private:
  job& job_;
  int rank_;
};

inline void job::run(const std::function<void(gpipe::process_group&)>& body) {
  std::vector<std::thread> ranks;
  std::vector<std::exception_ptr> causes(index(ranks_));
  for (int r = 0; r < ranks_; ++r)
    ranks.emplace_back([&, r] {
      member here(*this, r);
      try {
        body(here);
      } catch (...) {
        causes[index(r)] = std::current_exception();
      }
    });
  for (auto& rank : ranks) rank.join();
  for (const auto& cause : causes)
    if (cause) std::rethrow_exception(cause);
}

}  // namespace threaded
