// compiled: alone
#include <gpipe/transport/in_process/channel.hpp>

#include <doctest/doctest.h>

#include <array>
#include <barrier>
#include <optional>
#include <thread>
#include <vector>

#include "support/channel_law.hpp"
#include "support/threaded_job.hpp"

// The law of channels over those within a process: the library's, and that of the tests' job of threads. MPI's ends
// keep it in tests/mpi/ends.cpp, NCCL's in tests/cuda/nccl/ends.cu.

using namespace channel_law;

namespace {

struct in_process {
  static constexpr int messages = 500;
  static constexpr bool counts_samples = true, any_order = true, counts_allocations = true, names_location = true;
  static std::vector<gpipe::wait_limits> limits() { return {usual, sleeping}; }

  /// The sender writes into the receiver's slots.
  in_process(const channel_shape& s, const gpipe::wait_limits& by)
      : form(s),
        spins(by.spin > 0ns),
        wake_signals(2, by),
        link(wake_signals, 0, 1, slots_of(s)),
        memory(s.memory_slots, s.values) {}

  static std::vector<int> slots_of(const channel_shape& s) {
    std::vector<int> found;
    for (int m = 0; m < s.micro_batches; ++m) found.push_back(m % s.memory_slots);
    return found;
  }

  struct end final : side {
    end(in_process& model, bool sends) : side(model.form, model.form.memory_slots, model.memory), model_(model) {
      if (sends) out = &model.link;
      else in = &model.link;
    }
    void await_other() override {
      while (!model_.spins && !model_.wake_signals.asleep(out != nullptr ? 1 : 0)) std::this_thread::yield();
    }
    void await_failure() override {
      while (!model_.wake_signals.interrupted()) std::this_thread::yield();
    }
    void fail(const gpipe::error& failure) override {
      model_.cause.emplace(failure);
      model_.wake_signals.wake_all();
    }
    gpipe::error recover() override {
      model_.both.arrive_and_wait();
      const gpipe::error found = *model_.cause;
      model_.both.arrive_and_wait();
      if (out != nullptr) model_.wake_signals.reset(), model_.link.reset();
      model_.both.arrive_and_wait();
      return found;
    }

   private:
    in_process& model_;
  };

  void run(const body& sender, const body& receiver) {
    std::thread other([&] {
      end here(*this, false);
      receiver(here);
    });
    end here(*this, true);
    sender(here);
    other.join();
  }
  void run_lost(const body& sender, const body& receiver) { run(sender, receiver); }

  channel_shape form;
  bool spins;
  gpipe::detail::worker_signals wake_signals;
  gpipe::detail::channel<> link;
  buffers memory;
  std::optional<gpipe::error> cause;
  std::barrier<> both{2};
};

struct in_threaded_job {
  static constexpr int messages = 100;
  static constexpr bool counts_samples = true, any_order = true, counts_allocations = false, names_location = true;
  static std::vector<gpipe::wait_limits> limits() { return {usual}; }

  in_threaded_job(const channel_shape& s, const gpipe::wait_limits& by) : form(s), deadline(by.deadline) {}

  void run(const body& sender, const body& receiver) {
    threaded::job job(2);
    job.run([&](gpipe::process_group& here) {
      here.expect(deadline);
      run_in_job(here, form, sender, receiver);
    });
  }
  void run_lost(const body& sender, const body& receiver) { run(sender, receiver); }

  channel_shape form;
  std::chrono::nanoseconds deadline;
};

}  // namespace

CHANNEL_LAW(in_process, in_threaded_job);
