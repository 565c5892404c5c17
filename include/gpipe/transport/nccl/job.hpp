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
/// communicators too, as in the job that it is made of: `mpi::job job; nccl::job gpus(job);` and `{.job = &gpus}`.
///
/// After a failure all communicators are aborted, for a GPU must not wait for a rank that has given up; the next call
/// makes them anew.
class job final : public process_group {
 public:
  explicit job(process_group& of) : job_(of) {}

  int rank() const noexcept override { return job_.rank(); }
  int ranks() const noexcept override { return job_.ranks(); }
  bool reaches_devices() const noexcept override { return true; }
  void expect(std::chrono::nanoseconds deadline) override {
    deadline_ = deadline;
    job_.expect(deadline);
  }
  void agree(collective_kind what, std::span<const agreed_value> traits) override { job_.agree(what, traits); }

  GPIPE_COLD std::unique_ptr<sending_end> sender(const channel_layout& along) override {
    if (along.queue == nullptr) return job_.sender(along);
    auto made = std::make_unique<tracked<nccl::sender>>(*this, along);
    channel& its = add(*made, along.peer, true);
    its.id_sender = job_.sender(id_route(along.peer, its.id_message));
    return made;
  }
  GPIPE_COLD std::unique_ptr<receiving_end> receiver(const channel_layout& along) override {
    if (along.queue == nullptr) return job_.receiver(along);
    auto made = std::make_unique<tracked<nccl::receiver>>(*this, along);
    channel& its = add(*made, along.peer, false);
    its.id_receiver = job_.receiver(id_route(along.peer, its.id_message));
    return made;
  }
  std::unique_ptr<all_gather> make_all_gather(const std::vector<std::size_t>& sizes) override { return job_.make_all_gather(sizes); }

  /// All processes make their communicators in one order, so that none waits for another in vain.
  GPIPE_COLD void connect() override {
    if (whole_) return;
    std::vector<channel*> all;
    for (const auto& c : channels_) all.push_back(c.get());
    std::sort(all.begin(), all.end(), [](const channel* a, const channel* b) { return a->key < b->key; });
    try {
      for (channel* c : all)
        if (c->id_sender) post(*c);
      for (channel* c : all) join(*c);
    } catch (...) {
      abandon();
      throw;
    }
    whole_ = true;
  }
  void enter(collective_kind what, std::span<const agreed_value> traits) override {
    job_.enter(what, traits);
    connect();
  }
  void begin(wait_context what) override { job_.begin(what); }
  void look() override { job_.look(); }
  void broadcast(void* bytes, std::size_t size, int root, std::uint64_t which) override {
    job_.broadcast(bytes, size, root, which);
  }

  /// The host waits for the stage's stream, and looks meanwhile whether anybody has failed.
  void wait(const void* queue, wait_context what) override {
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
  GPIPE_COLD void abandon() noexcept override {
    job_.abandon();
    for (const auto& c : channels_) c->its->part();
    whole_ = channels_.empty();
  }
  error recover() override { return job_.recover(); }
  bool leave(const error& cause) noexcept override { return job_.leave(cause); }

 private:
  struct id_message {
    ncclUniqueId name{};
    device_identity gpu;
  };
  /// Of the ranks, the lower one first; whether that one sends; which of them.
  using order = std::tuple<int, int, bool, int>;
  struct channel {
    end* its;
    order key;
    nccl::job::id_message id_message{};
    std::unique_ptr<sending_end> id_sender{};    // the sender tells the name, and which GPU it has
    std::unique_ptr<receiving_end> id_receiver{};
  };
  /// An end that the job knows of for as long as it lives.
  template <class End>
  class tracked final : public End {
   public:
    tracked(job& of, const channel_layout& along) : End(along, *static_cast<const cuda::stream*>(along.queue)), job_(of) {}
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
  static channel_layout id_route(int peer, id_message& from) {
    return {peer, 1, {{reinterpret_cast<std::byte*>(&from), 0, sizeof from}}, {0}, {0}};
  }

  GPIPE_COLD void post(channel& c) {
    c.id_sender->acquire(0, connecting);
    check(ncclGetUniqueId(&c.id_message.name), "ncclGetUniqueId");
    c.id_message.gpu = device_identity::of(c.its->gpu());
    c.id_sender->publish(0, 1);
  }
  GPIPE_COLD void join(channel& c) {
    if (c.id_receiver) {
      c.id_receiver->consume(0, connecting);
      require_apart(c.its->peer(), c.id_message.gpu, rank(), device_identity::of(c.its->gpu()));
    }
    const ncclUniqueId name = c.id_message.name;
    if (c.id_receiver) c.id_receiver->release(0);
    const int mine = c.id_sender ? 0 : 1;
    c.its->join(std::make_unique<communicator>(name, 2, mine, c.its->gpu(), deadline_, [this] { job_.look(); }),
                1 - mine);
  }
  [[noreturn]] GPIPE_COLD void silence(wait_context what) {
    for (const auto& c : channels_)
      if (!c->its->idle())
        gpipe::detail::throw_error({"rank ", rank(), " waits for the process (", what.action, "), and nothing came for ",
                               gpipe::detail::duration_text(deadline_)},
                              {"see whether it lives, and what it waits for itself, or raise the deadline"},
                              {.rank = c->its->peer()});
    gpipe::detail::throw_error({"the GPU has not done for ", gpipe::detail::duration_text(deadline_), " what it was asked for"},
                          {"raise the deadline"}, {.rank = rank(), .stage = what.stage, .action = what.action});
  }
  static constexpr wait_context connecting{.action = "connect"};

  process_group& job_;
  std::chrono::nanoseconds deadline_ = wait_limits{}.deadline;
  std::vector<std::unique_ptr<channel>> channels_;
  std::map<std::tuple<int, int, bool>, int> counts_;
  std::vector<cuda::event> over_;  // [gpu]
  bool whole_ = true;
};

}  // namespace gpipe::nccl
