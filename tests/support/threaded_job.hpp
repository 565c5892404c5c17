#pragma once

// A job of the tests, whose processes are threads: a wire carries what they send each other late, slots in any order,
// and fails when it is call_fingerprint to.

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

#include <gpipe/core/concat.hpp>
#include <gpipe/transport/contract/process_group.hpp>

namespace threaded {

using gpipe::wait_context;
using gpipe::channel_layout;

/// A channel of a pair of ranks: what the wire knows of it.
struct channel {
  struct message {
    int place, samples;
  };
  struct slot {
    std::deque<message> on_the_way;  // in order
    bool posted = true, arrived = false;
    int samples = 0;
  };

  int from, to;
  std::optional<channel_layout> out{}, in{};
  std::vector<slot> slots{};
  std::vector<int> leaving{};  // [place]: messages that have not left it

  void reset() {
    for (slot& s : slots) s = {};
    std::fill(leaving.begin(), leaving.end(), 0);
  }
};

/// What the ranks share. Everything happens inside one door, but for what the wire copies and who waits.
class job {
 public:
  explicit job(int ranks, std::uint32_t random = 1)
      : ranks_(ranks), random_(random), brought_(index(ranks)), fingerprints_(index(ranks)), wire_([this] { carry(); }) {}
  ~job() {
    {
      const std::lock_guard<std::mutex> inside(door_);
      ending_ = true;
    }
    bell_.notify_all();
    wire_.join();
  }

  int ranks() const { return ranks_; }
  /// After so many messages more one is lost, once.
  void lose_after(int messages) {
    const std::lock_guard<std::mutex> inside(door_);
    until_lost_ = messages;
  }
  /// How often something overtook what was sent before it.
  int overtaken() {
    const std::lock_guard<std::mutex> inside(door_);
    return overtaken_;
  }

  /// Runs `body(process_group&)` in every rank.
  void run(const std::function<void(gpipe::process_group&)>& body);

 private:
  friend class member;
  friend class sender;
  friend class receiver;
  friend class meeting;

  static std::size_t index(int i) { return static_cast<std::size_t>(i); }

  template <class Ready>
  void wait(std::unique_lock<std::mutex>& inside, wait_context what, const std::string& awaited, Ready ready) {
    while (!ready()) {
      if (cause_) throw gpipe::detail::interrupted{};
      const auto seen = progress_;
      if (bell_.wait_for(inside, deadline_) == std::cv_status::timeout && seen == progress_ && !ready() && !cause_)
        throw gpipe::error(gpipe::detail::concat({"waits for ", awaited, ", and nobody made progress"}), "",
                           {.stage = what.stage, .micro_batch = what.micro_batch, .action = what.action});
    }
  }
  void moved() {
    ++progress_;
    bell_.notify_all();
  }

  // The ends of a pair's channels are made in the same order on both sides.
  channel& make(int from, int to, const channel_layout& along, bool sends) {
    const std::lock_guard<std::mutex> inside(door_);
    const auto open = std::find_if(channels_.begin(), channels_.end(), [&](const auto& c) {
      return c->from == from && c->to == to && !(sends ? c->out : c->in);
    });
    channel& c = open != channels_.end() ? **open
                                         : *channels_.emplace_back(std::make_unique<channel>(channel{from, to}));
    (sends ? c.out : c.in) = along;
    c.slots.resize(index(*std::max_element(along.receiver_slot.begin(), along.receiver_slot.end()) + 1));
    if (sends) c.leaving.resize(index(*std::max_element(along.sender_slot.begin(), along.sender_slot.end()) + 1));
    moved();  // something may wait for this end already
    return c;
  }
  void forget(channel& c, bool sends) {
    const std::lock_guard<std::mutex> inside(door_);
    (sends ? c.out : c.in).reset();
    if (!c.out && !c.in) std::erase_if(channels_, [&c](const auto& it) { return it.get() == &c; });
  }

  /// All bring bytes and have those of all.
  std::vector<std::vector<std::byte>> gather(int rank, std::vector<std::byte> mine, wait_context what) {
    std::unique_lock<std::mutex> inside(door_);
    if (cause_) throw gpipe::detail::interrupted{};
    const auto round = round_;
    brought_[index(rank)] = std::move(mine);
    if (++come_ == ranks_) {
      come_ = 0;
      ++round_;
      all_ = brought_;
      moved();
      return all_;
    }
    try {
      wait(inside, what, "the others", [&] { return round_ != round; });
    } catch (...) {
      --come_;
      throw;
    }
    return all_;  // of this round: the next is not over before all have come again
  }

  // What ranks are call_fingerprint for, in order: compared with what the first is, by whoever comes later.
  void enter(int rank, gpipe::collective_kind what, std::span<const gpipe::agreed_value> traits) {
    const std::lock_guard<std::mutex> inside(door_);
    if (cause_) throw gpipe::detail::interrupted{};
    fingerprints_[index(rank)].push_back({what, traits});
    for (int r = 1; r < ranks_ && !cause_; ++r)
      if (auto &first = fingerprints_[0], &other = fingerprints_[index(r)]; rank == 0 || rank == r)
        if (const std::size_t n = fingerprints_[index(rank)].size(); n <= first.size() && n <= other.size())
          if (!(first[n - 1] == other[n - 1])) {
            const gpipe::error found = first[n - 1].difference(other[n - 1], r, traits);
            fail(r, found);
          }
    if (cause_) throw gpipe::detail::interrupted{};
  }

  // The wire: of what can arrive now, any, and sometimes nothing for a while.
  void carry() {
    std::unique_lock<std::mutex> inside(door_);
    std::vector<std::pair<channel*, int>> ready;
    while (!ending_) {
      ready.clear();
      for (const auto& c : channels_)
        for (int k = 0; c->out && c->in && k < static_cast<int>(c->slots.size()); ++k)
          if (const auto& s = c->slots[index(k)]; s.posted && !s.arrived && !s.on_the_way.empty())
            ready.push_back({c.get(), k});
      random_ = random_ * 1664525u + 1013904223u;
      if (ready.empty() || cause_) {
        bell_.wait(inside);
      } else if (random_ >> 30 == 0) {
        bell_.wait_for(inside, std::chrono::microseconds(random_ >> 24));
      } else {
        const std::size_t which = (random_ >> 8) % ready.size();
        overtaken_ += which > 0;
        arrive(*ready[which].first, ready[which].second);
      }
    }
  }
  void arrive(channel& c, int k) {
    auto& s = c.slots[index(k)];
    const auto [place, samples] = s.on_the_way.front();
    s.on_the_way.pop_front();
    if (until_lost_ >= 0 && until_lost_-- == 0) return fail(c.to, {"a message was lost", "look after the wire"});
    for (std::size_t v = 0; v < c.out->values.size(); ++v) {
      const gpipe::buffer_layout &from = c.out->values[v], &to = c.in->values[v];
      std::memcpy(to.base + to.stride * index(k), from.base + from.stride * index(place), from.row * index(samples));
    }
    --c.leaving[index(place)];
    s.samples = samples;
    s.arrived = true, s.posted = false;
    moved();
  }
  void fail(int rank, const gpipe::error& cause) {
    if (cause_) return;
    gpipe::location at = cause.where();
    at.rank = rank;
    cause_.emplace(cause.wrong(), cause.remedy(), at);
    moved();
  }

  /// When all are here nothing is under way; the last forgets the cause.
  gpipe::error recover() {
    std::unique_lock<std::mutex> inside(door_);
    if (!cause_) throw std::logic_error("nothing has failed");
    gpipe::error first(cause_->wrong(), cause_->remedy(), cause_->where());  // a copy would share its text
    const auto round = recoveries_;
    if (++recovering_ == ranks_) {
      for (const auto& c : channels_) c->reset();
      for (auto& list : fingerprints_) list.clear();
      cause_.reset();
      recovering_ = come_ = 0;
      ++recoveries_;
      moved();
    } else {
      bell_.wait(inside, [&] { return recoveries_ != round; });
    }
    return first;
  }

  const int ranks_;
  std::uint32_t random_;
  std::mutex door_;
  std::condition_variable bell_;
  std::chrono::nanoseconds deadline_ = std::chrono::seconds(60);
  std::vector<std::unique_ptr<channel>> channels_;
  std::vector<std::vector<std::byte>> brought_, all_;
  std::vector<std::vector<gpipe::call_fingerprint>> fingerprints_;  // [rank], since the last failure
  std::optional<gpipe::error> cause_;
  std::uint64_t progress_ = 0, round_ = 0, recoveries_ = 0;
  int come_ = 0, recovering_ = 0, until_lost_ = -1, overtaken_ = 0;
  bool ending_ = false;
  std::thread wire_;
};

class sender final : public gpipe::sending_end {
 public:
  sender(job& of, int rank, const channel_layout& along)
      : job_(of), along_(along), channel_(of.make(rank, along.peer, along, true)) {}
  ~sender() override { job_.forget(channel_, true); }

  void acquire(int m, wait_context what) override {
    std::unique_lock<std::mutex> inside(job_.door_);
    const int place = along_.sender_slot[job::index(m)];
    job_.wait(inside, what, gpipe::detail::concat({"rank ", along_.peer, " to take place ", place}),
              [&] { return channel_.leaving[job::index(place)] == 0; });
  }
  void publish(int m, int samples) override {
    const std::lock_guard<std::mutex> inside(job_.door_);
    const int place = along_.sender_slot[job::index(m)];
    ++channel_.leaving[job::index(place)];
    channel_.slots[job::index(along_.receiver_slot[job::index(m)])].on_the_way.push_back({place, samples});
    job_.moved();
  }

 private:
  job& job_;
  channel_layout along_;
  channel& channel_;
};

class receiver final : public gpipe::receiving_end {
 public:
  receiver(job& of, int rank, const channel_layout& along)
      : job_(of), along_(along), channel_(of.make(along.peer, rank, along, false)) {}
  ~receiver() override { job_.forget(channel_, false); }

  int consume(int m, wait_context what) override {
    std::unique_lock<std::mutex> inside(job_.door_);
    const int k = along_.receiver_slot[job::index(m)];
    auto& s = channel_.slots[job::index(k)];
    job_.wait(inside, what, gpipe::detail::concat({"rank ", along_.peer, " to fill slot ", k}),
              [&s] { return s.arrived; });
    s.arrived = false;
    return s.samples;
  }
  bool arrived(int m) override {
    const std::lock_guard<std::mutex> inside(job_.door_);
    return channel_.slots[job::index(along_.receiver_slot[job::index(m)])].arrived;
  }
  void release(int m) override {
    const std::lock_guard<std::mutex> inside(job_.door_);
    channel_.slots[job::index(along_.receiver_slot[job::index(m)])].posted = true;
    job_.moved();
  }

 private:
  job& job_;
  channel_layout along_;
  channel& channel_;
};

class meeting final : public gpipe::all_gather {
 public:
  meeting(job& of, int rank, const std::vector<std::size_t>& sizes)
      : job_(of), rank_(rank), mine_(sizes[job::index(rank)]) {}

  std::byte* mine() override { return mine_.data(); }
  const std::byte* of(int rank) const override { return all_[job::index(rank)].data(); }
  void meet(wait_context what, const std::vector<gpipe::sending_end*>& settled) override {
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
  void expect(std::chrono::nanoseconds deadline) override {
    const std::lock_guard<std::mutex> inside(job_.door_);
    job_.deadline_ = deadline;
  }
  void agree(gpipe::collective_kind what, std::span<const gpipe::agreed_value> traits) override {
    try {
      enter(what, traits);
      job_.gather(rank_, {}, {.action = "agree"});
    } catch (const gpipe::detail::interrupted&) {
      throw job_.recover();
    }
  }
  void enter(gpipe::collective_kind what, std::span<const gpipe::agreed_value> traits) override { job_.enter(rank_, what, traits); }
  std::unique_ptr<gpipe::sending_end> sender(const channel_layout& along) override {
    return std::make_unique<threaded::sender>(job_, rank_, along);
  }
  std::unique_ptr<gpipe::receiving_end> receiver(const channel_layout& along) override {
    return std::make_unique<threaded::receiver>(job_, rank_, along);
  }
  std::unique_ptr<gpipe::all_gather> make_all_gather(const std::vector<std::size_t>& sizes) override {
    return std::make_unique<meeting>(job_, rank_, sizes);
  }
  void begin(wait_context) override {
    const std::lock_guard<std::mutex> inside(job_.door_);
    if (job_.cause_) throw gpipe::detail::interrupted{};
    job_.moved();
  }
  void look() override {
    const std::lock_guard<std::mutex> inside(job_.door_);
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
    const std::lock_guard<std::mutex> inside(job_.door_);
    job_.fail(rank_, cause);
  }
  gpipe::error recover() override { return job_.recover(); }
  bool leave(const gpipe::error& cause) noexcept override {
    fail(cause);
    return rank_ == 0;
  }

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
