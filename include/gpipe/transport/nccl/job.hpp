#pragma once

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include <gpipe/transport/nccl/device_identity.hpp>
#include <gpipe/transport/nccl/ends.hpp>

namespace gpipe::nccl {

/// A job whose processes train on GPUs, each on its own: what lies in a GPU's memory goes by NCCL, all else, names of
/// communicators too, as in the job that it is made of: `mpi::job job; nccl::job gpus(job);` and `{.peers = &gpus}`.
///
/// After a failure all communicators are aborted, for a GPU must not wait for a rank that has given up; the next call
/// makes them anew.
class job final : public peers {
 public:
  explicit job(peers& of) : job_(of) {}

  int rank() const noexcept override { return job_.rank(); }
  int ranks() const noexcept override { return job_.ranks(); }
  bool reaches_devices() const noexcept override { return true; }
  void expect(std::chrono::nanoseconds deadline) override {
    deadline_ = deadline;
    job_.expect(deadline);
  }
  void agree(request what, std::span<const trait> traits) override { job_.agree(what, traits); }

  GPIPE_ONCE std::unique_ptr<far_sender> sender(const route& along) override {
    if (along.queue == nullptr) return job_.sender(along);
    auto made = std::make_unique<tracked<nccl::sender>>(*this, along);
    channel& its = add(*made, along.peer, true);
    its.mail_out = job_.sender(by_post(along.peer, its.letter));
    return made;
  }
  GPIPE_ONCE std::unique_ptr<far_receiver> receiver(const route& along) override {
    if (along.queue == nullptr) return job_.receiver(along);
    auto made = std::make_unique<tracked<nccl::receiver>>(*this, along);
    channel& its = add(*made, along.peer, false);
    its.mail_in = job_.receiver(by_post(along.peer, its.letter));
    return made;
  }
  std::unique_ptr<assembly> assemble(const std::vector<std::size_t>& sizes) override { return job_.assemble(sizes); }

  /// All processes make their communicators in one order, so that none waits for another in vain.
  GPIPE_ONCE void connect() override {
    if (whole_) return;
    std::vector<channel*> all;
    for (const auto& c : channels_) all.push_back(c.get());
    std::sort(all.begin(), all.end(), [](const channel* a, const channel* b) { return a->key < b->key; });
    try {
      for (channel* c : all)
        if (c->mail_out) post(*c);
      for (channel* c : all) join(*c);
    } catch (...) {
      abandon();
      throw;
    }
    whole_ = true;
  }
  void enter(request what, std::span<const trait> traits) override {
    job_.enter(what, traits);
    connect();
  }
  void begin(errand what) override { job_.begin(what); }
  void look() override { job_.look(); }
  void broadcast(void* bytes, std::size_t size, int root, std::uint64_t which) override {
    job_.broadcast(bytes, size, root, which);
  }

  /// The host waits for the stage's stream, and looks meanwhile whether anybody has failed.
  void wait(const void* queue, errand what) override {
    const auto& stage = *static_cast<const cuda::stream*>(queue);
    const auto begin = std::chrono::steady_clock::now();
    cuda::use(stage.gpu());
    const auto gpu = static_cast<std::size_t>(stage.gpu());
    if (over_.size() <= gpu) over_.resize(gpu + 1);
    over_[gpu].record(stage);
    while (!over_[gpu].over()) {
      job_.look();
      for (const auto& c : channels_) c->its->look();
      const auto now = std::chrono::steady_clock::now() - begin;
      if (now > deadline_) silence(what);
      if (now > std::chrono::milliseconds(1)) std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
  }

  void fail(const error& cause) noexcept override { job_.fail(cause); }
  GPIPE_ONCE void abandon() noexcept override {
    job_.abandon();
    for (const auto& c : channels_) c->its->part();
    whole_ = channels_.empty();
  }
  error recover() override { return job_.recover(); }
  bool leave(const error& cause) noexcept override { return job_.leave(cause); }

 private:
  struct letter {
    ncclUniqueId name{};
    identity gpu;
  };
  /// Of the ranks, the lower one first; whether that one sends; which of them.
  using order = std::tuple<int, int, bool, int>;
  struct channel {
    end* its;
    order key;
    nccl::job::letter letter{};
    std::unique_ptr<far_sender> mail_out{};    // the sender tells the name, and which GPU it has
    std::unique_ptr<far_receiver> mail_in{};
  };
  /// An end that the job knows of for as long as it lives.
  template <class End>
  class tracked final : public End {
   public:
    tracked(job& of, const route& along) : End(along, *static_cast<const cuda::stream*>(along.queue)), job_(of) {}
    ~tracked() override { job_.remove(*this); }

   private:
    job& job_;
  };

  channel& add(end& its, int peer, bool sends) {
    const int low = (std::min)(rank(), peer), high = (std::max)(rank(), peer);
    const bool low_sends = sends == (rank() == low);
    const int number = counts_[{low, high, low_sends}]++;
    whole_ = false;
    channels_.push_back(std::make_unique<channel>(channel{&its, {low, high, low_sends, number}}));
    return *channels_.back();
  }
  void remove(const end& its) {
    std::erase_if(channels_, [&](const auto& c) { return c->its == &its; });
  }
  static route by_post(int peer, letter& from) {
    return {peer, 1, {{reinterpret_cast<std::byte*>(&from), 0, sizeof from}}, {0}, {0}};
  }

  GPIPE_ONCE void post(channel& c) {
    c.mail_out->acquire(0, connecting);
    check(ncclGetUniqueId(&c.letter.name), "ncclGetUniqueId");
    c.letter.gpu = identity::of(c.its->gpu());
    c.mail_out->publish(0, 1);
  }
  GPIPE_ONCE void join(channel& c) {
    if (c.mail_in) {
      c.mail_in->consume(0, connecting);
      require_apart(c.its->peer(), c.letter.gpu, rank(), identity::of(c.its->gpu()));
    }
    const ncclUniqueId name = c.letter.name;
    if (c.mail_in) c.mail_in->release(0);
    const int mine = c.mail_out ? 0 : 1;
    c.its->join(std::make_unique<communicator>(name, 2, mine, c.its->gpu(), deadline_, [this] { job_.look(); }),
                1 - mine);
  }
  [[noreturn]] GPIPE_ONCE void silence(errand what) {
    for (const auto& c : channels_)
      if (!c->its->idle())
        gpipe::detail::refuse({"rank ", rank(), " waits for the process (", what.action, "), and nothing came for ",
                               gpipe::detail::told(deadline_)},
                              {"see whether it lives, and what it waits for itself, or raise the deadline"},
                              {.rank = c->its->peer()});
    gpipe::detail::refuse({"the GPU has not done for ", gpipe::detail::told(deadline_), " what it was asked for"},
                          {"raise the deadline"}, {.rank = rank(), .stage = what.stage, .action = what.action});
  }
  static constexpr errand connecting{.action = "connect"};

  peers& job_;
  std::chrono::nanoseconds deadline_ = patience{}.deadline;
  std::vector<std::unique_ptr<channel>> channels_;
  std::map<std::tuple<int, int, bool>, int> counts_;
  std::vector<cuda::event> over_;  // [gpu]
  bool whole_ = true;
};

}  // namespace gpipe::nccl
