#if GPIPE_WITH_NCCL
#include <gpipe/cuda/nccl/ends.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <deque>
#include <numeric>
#include <vector>

#include <gpipe/cuda/nccl/job.hpp>
#include <gpipe/cuda/stream/gpu.hpp>

#include "support/channel_law.hpp"
#include "support/threaded_job.hpp"

// The law of channels over the ends of NCCL: two ranks, each a thread with a GPU of its own.

namespace nccl_law {

using namespace channel_law;
using gpipe::cuda::check;

/// A slot's rows are written and read by copies on the stage's stream.
class side_on_gpu final : public side_in_job {
 public:
  side_on_gpu(gpipe::process_group& job, const channel_shape& s, bool sends, buffers& memory,
              const gpipe::cuda::stream& stage, const gpipe::channel_layout& layout)
      : side_in_job(job, s, sends, memory), stage_(stage), layout_(layout) {}

  void write(int m, int message) override {
    side::write(m, message);
    for (int v = 0; v < form.values; ++v) {
      const auto words = rows(v, m, capacity);
      copies_.emplace_back(words.begin(), words.end());  // stays as it is until it has been copied
      copy(at(v, m), copies_.back().data(), words.size_bytes());
    }
  }
  bool holds(int m, int message) override {
    for (int v = 0; v < form.values; ++v) {
      const auto words = rows(v, m, capacity);
      copy(words.data(), at(v, m), words.size_bytes());
    }
    wait(receives);
    return side::holds(m, message);
  }
  void wait(gpipe::wait_context what) override { job_.wait(&stage_, what); }

 private:
  std::byte* at(int v, int m) const {
    const auto& memory_slots = out != nullptr ? layout_.sender_slot : layout_.receiver_slot;
    const auto& value = layout_.values[static_cast<std::size_t>(v)];
    return value.base + value.stride * static_cast<std::size_t>(memory_slots[static_cast<std::size_t>(m)]);
  }
  void copy(void* into, const void* from, std::size_t bytes) const {
    gpipe::cuda::use(stage_.gpu());
    check(cudaMemcpyAsync(into, from, bytes, cudaMemcpyDefault, stage_.get()), "cudaMemcpyAsync");
  }

  const gpipe::cuda::stream& stage_;
  const gpipe::channel_layout& layout_;
  std::deque<std::vector<std::uint32_t>> copies_;
};

struct on_gpus {
  static constexpr int messages = 30;
  static constexpr bool counts_samples = false, any_order = false, counts_allocations = false, names_location = false;
  static std::vector<gpipe::wait_limits> limits() { return {usual}; }

  on_gpus(const channel_shape& s, const gpipe::wait_limits& by) : form(s), deadline(by.deadline) {}

  void run(const body& sender, const body& receiver) {
    if (gpipe::cuda::gpus() < 2) {
      MESSAGE("SKIPPED, NOTHING WAS SENT: this machine has fewer than two GPUs");
      return;
    }
    threaded::job job(2);
    job.run([&](gpipe::process_group& its) {
      gpipe::nccl::job here(its);
      const bool sends = here.rank() == 0;
      const int memory_slots = sends ? form.sender_slots : form.memory_slots;
      buffers memory(memory_slots, form.values);
      auto layout = layout_of(form, 1 - here.rank(), sends, memory);
      const gpipe::cuda::stream stage(here.rank());
      std::deque<gpipe::cuda::arena> arenas;
      for (auto& value : layout.values) {
        arenas.emplace_back(value.stride * static_cast<std::size_t>(memory_slots), std::byte{0}, stage.gpu());
        value.base = arenas.back().data();
      }
      layout.queue = &stage;
      const auto out = sends ? here.sender(layout) : nullptr;
      const auto in = sends ? nullptr : here.receiver(layout);
      here.connect();
      here.expect(deadline);
      side_on_gpu end(here, form, sends, memory, stage, layout);
      end.out = out.get(), end.in = in.get();
      (sends ? sender : receiver)(end);
      here.expect(usual.deadline);
      std::byte done{};
      here.wait(&stage, {.action = "end"});
      here.broadcast(&done, 1, 0, 0);
    });
  }
  void run_lost(const body& sender, const body& receiver) { run(sender, receiver); }

  channel_shape form;
  std::chrono::nanoseconds deadline;
};

}  // namespace nccl_law

CHANNEL_LAW(nccl_law::on_gpus);

TEST_CASE("a slot is received into after the stage has read it, and written after it was sent, though no host waits") {
  using namespace nccl_law;
  if (gpipe::cuda::gpus() < 2) {
    MESSAGE("SKIPPED, NOTHING WAS SENT: this machine has fewer than two GPUs");
    return;
  }
  constexpr int rounds = 4, count = 32;
  std::vector<int> sent(rounds * count), found(sent.size());
  std::iota(sent.begin(), sent.end(), 1);
  threaded::job job(2);
  job.run([&](gpipe::process_group& its) {
    gpipe::nccl::job here(its);
    const bool sends = here.rank() == 0;
    const gpipe::cuda::stream stage(here.rank());
    constexpr std::size_t bytes = count * sizeof(int);
    const gpipe::cuda::arena slot(bytes, std::byte{0}, stage.gpu()), all(rounds * bytes, std::byte{0}, stage.gpu());
    const auto copy = [&](void* into, const void* from, std::size_t size) {
      gpipe::cuda::use(stage.gpu());
      check(cudaMemcpyAsync(into, from, size, cudaMemcpyDefault, stage.get()), "cudaMemcpyAsync");
    };
    const std::vector<int> one_slot(rounds);
    const gpipe::channel_layout layout{1 - here.rank(), count,    {{slot.data(), bytes, sizeof(int)}},
                                       one_slot,        one_slot, &stage};
    const auto out = sends ? here.sender(layout) : nullptr;
    const auto in = sends ? nullptr : here.receiver(layout);
    here.connect();
    if (sends) copy(all.data(), sent.data(), rounds * bytes);
    for (int m = 0; m < rounds; ++m) {
      std::byte* const row = all.data() + bytes * static_cast<std::size_t>(m);
      if (sends) {
        out->acquire(m, {.action = "send"});
        copy(slot.data(), row, bytes);
        out->publish(m, count);
      } else {
        in->consume(m, {.action = "receive"});
        copy(row, slot.data(), bytes);
        in->release(m);
      }
    }
    if (!sends) copy(found.data(), all.data(), rounds * bytes);
    here.wait(&stage, {.action = "end"});
    std::byte done{};
    here.broadcast(&done, 1, 0, 0);
  });
  CHECK(found == sent);
}
#endif
