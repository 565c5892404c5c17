#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include <gpipe/cuda/nccl/communicator.hpp>
#include <gpipe/cuda/nccl/ends.hpp>
#include <gpipe/transport/contract/process_group.hpp>

namespace gpipe::nccl {

/// A job whose processes train on GPUs, one GPU per process. NCCL sends the GPUs' memory; another job sends everything
/// else, including the ids of communicators: `mpi::job job; nccl::job gpus(job);` and `{.job = &gpus}`.
///
/// After a failure all communicators are aborted, because a GPU must not wait for a rank that has failed; the next call
/// makes new ones.
class job final : public process_group {
 public:
  explicit job(process_group& over) : job_(over) {}

  int rank() const noexcept override { return job_.rank(); }
  int ranks() const noexcept override { return job_.ranks(); }
  bool reaches_devices() const noexcept override { return true; }
  void expect(std::chrono::nanoseconds deadline) override {
    deadline_ = deadline;
    job_.expect(deadline);
  }
  void agree(collective_kind kind, std::span<const agreed_value> values) override { job_.agree(kind, values); }

  GPIPE_COLD std::unique_ptr<sending_end> sender(const channel_layout& layout) override {
    if (layout.queue == nullptr) return job_.sender(layout);
    auto made = std::make_unique<tracked<nccl::sender>>(*this, layout);
    channel& added = add(*made, layout.peer, true);
    added.id_sender = job_.sender(id_layout(layout.peer, added.id_message));
    return made;
  }
  GPIPE_COLD std::unique_ptr<receiving_end> receiver(const channel_layout& layout) override {
    if (layout.queue == nullptr) return job_.receiver(layout);
    auto made = std::make_unique<tracked<nccl::receiver>>(*this, layout);
    channel& added = add(*made, layout.peer, false);
    added.id_receiver = job_.receiver(id_layout(layout.peer, added.id_message));
    return made;
  }
  std::unique_ptr<all_gather> make_all_gather(const std::vector<std::size_t>& sizes) override {
    return job_.make_all_gather(sizes);
  }

  /// All processes make their communicators in the same order, so that none waits for ever.
  GPIPE_COLD void connect() override {
    if (connected_) return;
    std::vector<channel*> ordered;
    for (const auto& c : channels_) ordered.push_back(c.get());
    std::sort(ordered.begin(), ordered.end(), [](const channel* a, const channel* b) { return a->key < b->key; });
    try {
      for (channel* c : ordered)
        if (c->id_sender) send_id(*c);
      for (channel* c : ordered) connect(*c);
    } catch (...) {
      abandon();
      throw;
    }
    connected_ = true;
  }
  void enter(collective_kind kind, std::span<const agreed_value> values) override {
    job_.enter(kind, values);
    connect();
  }
  void begin(wait_context context) override { job_.begin(context); }
  void poll() override { job_.poll(); }
  void runs_long(const detail::location& kernel) noexcept override { job_.runs_long(kernel); }
  host_cores on_this_host() const noexcept override { return job_.on_this_host(); }
  void set_workers(const std::vector<int>& counts) override { job_.set_workers(counts); }
  void broadcast(void* bytes, std::size_t size, int root, std::uint64_t tag) override {
    job_.broadcast(bytes, size, root, tag);
  }

  /// The host waits for the stage's stream and meanwhile checks for failures.
  void wait(const void* queue, wait_context context) override {
    const auto& stage = *static_cast<const cuda::stream*>(queue);
    const auto begin = std::chrono::steady_clock::now();
    cuda::use(stage.gpu());
    const auto gpu = static_cast<std::size_t>(stage.gpu());
    if (done_.size() <= gpu) done_.resize(gpu + 1);
    done_[gpu].record(stage);
    while (!done_[gpu].over()) {
      job_.poll();
      for (const auto& c : channels_) c->end->check_error();
      const auto elapsed = std::chrono::steady_clock::now() - begin;
      if (elapsed > deadline_) fail_without_progress(context);
      if (elapsed > std::chrono::milliseconds(1)) std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
  }

  void fail(const error& cause) noexcept override { job_.fail(cause); }
  GPIPE_COLD void abandon() noexcept override {
    job_.abandon();
    for (const auto& c : channels_) c->end->abort();
    connected_ = channels_.empty();
  }
  error recover() override { return job_.recover(); }
  bool leave(const error& cause) noexcept override { return job_.leave(cause); }
  bool lost() const noexcept override { return job_.lost(); }

 private:
  struct id_message {
    ncclUniqueId id{};
    device_identity gpu;
  };
  /// The lower rank, the higher rank, whether the lower one sends, and the index among such channels.
  using order = std::tuple<int, int, bool, int>;
  struct channel {
    nccl::end* end;
    order key;
    nccl::job::id_message id_message{};
    std::unique_ptr<sending_end> id_sender{};  // the sender sends the id and its GPU's identity
    std::unique_ptr<receiving_end> id_receiver{};
  };
  /// An end that is in the job's list while it exists.
  template <class End>
  class tracked final : public End {
   public:
    tracked(job& owner, const channel_layout& layout)
        : End(layout, *static_cast<const cuda::stream*>(layout.queue)), job_(owner) {}
    ~tracked() override { job_.remove(*this); }

   private:
    job& job_;
  };

  channel& add(end& made, int peer, bool sends) {
    const int low = (std::min)(rank(), peer), high = (std::max)(rank(), peer);
    const bool low_sends = sends == (rank() == low);
    const int number = counts_[{low, high, low_sends}]++;
    connected_ = false;
    channels_.push_back(std::make_unique<channel>(channel{&made, {low, high, low_sends, number}}));
    return *channels_.back();
  }
  void remove(const end& removed) {
    std::erase_if(channels_, [&](const auto& c) { return c->end == &removed; });
  }
  static channel_layout id_layout(int peer, id_message& message) {
    return {peer, 1, {{reinterpret_cast<std::byte*>(&message), 0, sizeof message}}, {0}, {0}};
  }

  GPIPE_COLD void send_id(channel& c) {
    c.id_sender->acquire(0, connecting);
    check(ncclGetUniqueId(&c.id_message.id), "ncclGetUniqueId");
    c.id_message.gpu = device_identity::of(c.end->gpu());
    c.id_sender->publish(0, 1);
  }
  GPIPE_COLD void connect(channel& c) {
    if (c.id_receiver) {
      c.id_receiver->consume(0, connecting);
      require_apart(c.end->peer(), c.id_message.gpu, rank(), device_identity::of(c.end->gpu()));
    }
    const ncclUniqueId id = c.id_message.id;
    if (c.id_receiver) c.id_receiver->release(0);
    const int link_rank = c.id_sender ? 0 : 1;
    c.end->connect(std::make_unique<communicator>(id, 2, link_rank, c.end->gpu(), deadline_, [this] { job_.poll(); }),
                   1 - link_rank);
  }
  [[noreturn]] GPIPE_COLD void fail_without_progress(wait_context context) {
    for (const auto& c : channels_)
      if (!c->end->idle())
        // change: an error location
        gpipe::detail::throw_error({"rank ", rank(), " waits for the process (", context.action,
                                    "), and nothing came for ", gpipe::detail::duration_text(deadline_)},
                                   {"see whether it is alive and what it waits for, or raise the deadline"},
                                   {.rank = c->end->peer()});
    gpipe::detail::throw_error({"the GPU has not completed its work within ", gpipe::detail::duration_text(deadline_)},
                               {"raise the deadline"},
                               {.rank = rank(), .stage = context.stage, .action = context.action});
  }
  static constexpr wait_context connecting{.action = "connect"};

  process_group& job_;
  std::chrono::nanoseconds deadline_ = wait_limits{}.deadline;
  std::vector<std::unique_ptr<channel>> channels_;
  std::map<std::tuple<int, int, bool>, int> counts_;
  std::vector<cuda::event> done_;  // [gpu]
  bool connected_ = true;
};

}  // namespace gpipe::nccl
