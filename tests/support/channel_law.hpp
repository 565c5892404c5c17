#pragma once

// The law of gpipe/transport/contract/process_group.hpp as test cases over any model. A test runs them by
// CHANNEL_LAW(my_model). A model has both ends of one channel:
//
//   my_model(channel_shape, limits)      makes the ends, or makes them in `run`
//   run(sender, receiver)        runs `sender(side&)` and `receiver(side&)` at the same time and returns when both have
//                                ended; a process that has one end runs the function of that end alone
//   messages                     the length of a long exchange
//   counts_samples               false: every message has the size of a full micro-batch
//   any_order                    false: the receiver consumes in the order in which messages are sent
//   counts_allocations           false: the ends or the model allocate
//   limits()                     the ways to wait

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gpipe/core/error.hpp>
#include <gpipe/transport/contract/process_group.hpp>

#ifdef __CUDACC__
inline std::atomic<long> allocations{0};  // nvcc cannot replace operator new: models on GPUs count no allocations
#else
#include "support/allocations.hpp"
#endif

// change: a transport
namespace channel_law {

using namespace std::chrono_literals;

constexpr int capacity = 4, width = 700;  // 2,800 words: more than MPI sends before the receiver is ready

/// Micro-batch m has slot m mod `slots` of the receiver and slot m mod `sender_slots` of the sender.
struct channel_shape {
  int micro_batches, memory_slots, sender_slots, values = 1;
};

/// The slots of one end in the host's memory.
class buffers {
 public:
  buffers(int memory_slots, int values) {
    for (int v = 0; v < values; ++v) words_.emplace_back(row(v) * capacity * static_cast<std::size_t>(memory_slots));
  }
  static std::size_t row(int v) { return static_cast<std::size_t>(width / (v + 1)); }
  std::span<std::uint32_t> at(int v, int slot, int samples) {
    return std::span(words_[static_cast<std::size_t>(v)])
        .subspan(row(v) * capacity * static_cast<std::size_t>(slot), row(v) * static_cast<std::size_t>(samples));
  }

 private:
  std::vector<std::vector<std::uint32_t>> words_;  // [value]
};

/// One end of the channel, as a case uses it.
class side {
 public:
  side(const channel_shape& s, int memory_slots, buffers& memory) : form(s), slots_(memory_slots), memory_(&memory) {}
  virtual ~side() = default;
  side(const side&) = delete;
  side& operator=(const side&) = delete;

  virtual void write(int m, int message) {
    for (int v = 0; v < form.values; ++v) {
      const auto words = rows(v, m, samples_of(message));
      for (std::size_t i = 0; i < words.size(); ++i) words[i] = word(message, v, i);
    }
  }
  virtual bool holds(int m, int message) {
    bool same = true;
    for (int v = 0; v < form.values; ++v) {
      const auto words = rows(v, m, samples_of(message));
      for (std::size_t i = 0; i < words.size(); ++i) same = same && words[i] == word(message, v, i);
    }
    return same;
  }
  /// The host waits until the end's work is done.
  virtual void wait(gpipe::wait_context) {}
  /// Returns when the other end waits, as far as this can be seen.
  virtual void await_other() { std::this_thread::sleep_for(2ms); }
  /// Returns when the other end has failed; its failure is not awaited by a call of this end.
  virtual void await_failure() = 0;
  virtual void fail(const gpipe::error& cause) = 0;
  /// Both ends, after a failure: returns the cause, and all is as new.
  virtual gpipe::error recover() = 0;

  static int samples_of(int message) { return message % 5 == 3 ? 1 + message % 3 : capacity; }

  gpipe::sending_end* out = nullptr;
  gpipe::receiving_end* in = nullptr;
  const channel_shape form;

 protected:
  std::span<std::uint32_t> rows(int v, int m, int samples) { return memory_->at(v, m % slots_, samples); }
  static std::uint32_t word(int message, int v, std::size_t i) {
    return static_cast<std::uint32_t>(message * 31 + v) * 2654435761u + static_cast<std::uint32_t>(i);
  }

 private:
  int slots_;
  buffers* memory_;
};

using body = std::function<void(side&)>;

/// An end in a process of a job.
class side_in_job : public side {
 public:
  side_in_job(gpipe::process_group& job, const channel_shape& s, bool sends, buffers& memory)
      : side(s, sends ? s.sender_slots : s.memory_slots, memory), job_(job) {}
  void await_failure() override {
    try {
      for (;; std::this_thread::sleep_for(100us)) job_.poll();
    } catch (const gpipe::detail::interrupted&) {
    }
  }
  void fail(const gpipe::error& cause) override { job_.fail(cause); }
  gpipe::error recover() override {
    job_.abandon();
    gpipe::error cause = job_.recover();
    job_.connect();
    return cause;
  }

 protected:
  gpipe::process_group& job_;
};

/// The layout of an end whose slots lie in `memory`.
inline gpipe::channel_layout layout_of(const channel_shape& s, int peer, bool sends, buffers& memory) {
  gpipe::channel_layout made{peer, capacity, {}, {}, {}};
  for (int v = 0; v < s.values; ++v)
    made.values.push_back(
        {reinterpret_cast<std::byte*>(memory.at(v, 0, 1).data()), 4 * capacity * buffers::row(v), 4 * buffers::row(v)});
  for (int m = 0; m < s.micro_batches; ++m) {
    made.receiver_slot.push_back(m % s.memory_slots);
    if (sends) made.sender_slot.push_back(m % s.sender_slots);
  }
  return made;
}

/// Rank 0 of a job sends, rank 1 receives; other ranks wait until both are done.
inline void run_in_job(gpipe::process_group& job, const channel_shape& s, const body& sender, const body& receiver) {
  const bool sends = job.rank() == 0;
  if (job.rank() < 2) {
    buffers memory(sends ? s.sender_slots : s.memory_slots, s.values);
    const auto layout = layout_of(s, 1 - job.rank(), sends, memory);
    const auto out = sends ? job.sender(layout) : nullptr;
    const auto in = sends ? nullptr : job.receiver(layout);
    job.connect();
    side_in_job here(job, s, sends, memory);
    here.out = out.get(), here.in = in.get();
    (sends ? sender : receiver)(here);
    std::byte done{};
    job.broadcast(&done, 1, 0, 0);  // before the ends are destroyed no message is under way
    return;
  }
  for (bool over = false; !over;) {
    std::byte done{};
    try {
      job.broadcast(&done, 1, 0, 0);
      over = true;
    } catch (const gpipe::error&) {  // the other ranks recover, and so has this one
    }
  }
}

/// Some work of varying length, so that the two ends fall out of step.
struct uneven_work {
  std::uint32_t state;
  void operator()() {
    state = state * 1664525u + 1013904223u;
    for (std::uint32_t i = 0; i < state >> 23; ++i) gpipe::detail::pause();
  }
};

constexpr gpipe::wait_limits spinning{.spin = 10s, .deadline = 60s};
constexpr gpipe::wait_limits sleeping{.spin = 0ns, .deadline = 60s};
constexpr gpipe::wait_limits usual{};
constexpr gpipe::wait_context sends{.stage = 3, .micro_batch = 5, .action = "send_activation"};
constexpr gpipe::wait_context receives{.stage = 4, .micro_batch = 6, .action = "receive_activation"};

/// The sender's part of an exchange: messages 0, 1, ... as micro-batches 0, 1, ... in turn.
inline void send_all(side& here, int messages) {
  uneven_work work{3};
  for (int message = 0; message < messages; ++message) {
    const int m = message % here.form.micro_batches;
    here.out->acquire(m, sends);
    work();
    here.write(m, message);
    here.out->publish(m, side::samples_of(message));
  }
}
/// The receiver's part, in rounds over all slots: released last in, first out, as fill-drain does, or in order. Returns
/// the number of faults.
inline int receive_all(side& here, int messages, bool last_first, bool counts_samples) {
  uneven_work work{7};
  int faults = 0;
  for (int first = 0; first < messages; first += here.form.memory_slots) {
    const int count = messages - first < here.form.memory_slots ? messages - first : here.form.memory_slots;
    const auto m = [&](int k) { return (first + k) % here.form.micro_batches; };
    for (int k = 0; k < count; ++k) {
      const int samples = here.in->consume(m(k), receives);
      if (samples != (counts_samples ? side::samples_of(first + k) : capacity)) ++faults;
      work();
      if (last_first) continue;
      if (!here.holds(m(k), first + k)) ++faults;
      here.in->release(m(k));
    }
    for (int k = count - 1; last_first && k >= 0; --k) {
      if (!here.holds(m(k), first + k)) ++faults;
      work();
      here.in->release(m(k));
    }
  }
  return faults;
}

/// The sender waits for a slot that is never released, or the receiver for one that is never published.
inline void wait_in_vain(side& here) {
  if (here.in != nullptr) {
    here.in->consume(0, receives);
    return here.wait(receives);
  }
  for (int i = 0; i < 4; ++i) {
    here.out->acquire(0, sends);
    here.out->publish(0, capacity);
  }
  here.wait(sends);
}

/// Waits in vain and, as the runtime does, reports an error to all others. Returns whether the wait was interrupted.
inline bool is_interrupted(side& here) {
  try {
    wait_in_vain(here);
  } catch (const gpipe::detail::interrupted&) {
    return true;
  } catch (const gpipe::error& cause) {
    here.fail(cause);
  }
  return false;
}

}  // namespace channel_law

TEST_CASE_TEMPLATE_DEFINE("channel: order, content and samples are kept, nothing is lost or doubled", Model,
                          channel_order) {
  using namespace channel_law;
  for (const auto& limits : Model::limits())
    for (const int values : {1, 3})
      for (const int memory_slots : {1, 2, 5})
        for (const int sender_slots : {1, 2})
          for (const bool last_first : {false, true}) {
            Model model({10, memory_slots, sender_slots, values}, limits);
            std::atomic<int> faults{0};
            model.run(
                [](side& here) { send_all(here, Model::messages); },
                [&](side& here) { faults = receive_all(here, Model::messages, last_first, Model::counts_samples); });
            CHECK(faults == 0);
          }
}

TEST_CASE_TEMPLATE_DEFINE("channel: each slot is waited for by itself", Model, channel_slots) {
  using namespace channel_law;
  Model model({3, 3, 3}, usual);
  std::atomic<int> faults{0};
  model.run(
      [](side& here) {
        for (const int m : {2, 0, 1}) {
          here.out->acquire(m, sends);
          here.write(m, m);
          here.out->publish(m, capacity);
        }
        here.out->acquire(2, sends);
      },
      [&](side& here) {
        const std::initializer_list<int> sent{2, 0, 1}, other{1, 2, 0};
        for (const int m : Model::any_order ? other : sent) {
          faults += here.in->consume(m, receives) != capacity;
          faults += !here.holds(m, m);
        }
        here.in->release(2);
      });
  CHECK(faults == 0);
}

TEST_CASE_TEMPLATE_DEFINE("channel: a failure elsewhere ends every wait, and then every slot is free", Model,
                          channel_failure) {
  using namespace channel_law;
  for (const auto& limits : {spinning, sleeping})
    for (const bool sender_waits : {false, true}) {
      Model model({5, 1, 1}, limits);
      std::atomic<int> faults{0};
      const auto check = [&](side& here, const body& before) {
        bool early = false;
        try {
          before(here);
        } catch (const gpipe::detail::interrupted&) {
          early = true;  // on a machine under load the other end has failed already
        }
        const auto begin = std::chrono::steady_clock::now();
        if ((here.out != nullptr) == sender_waits) {
          faults += !early && !is_interrupted(here);
        } else {
          here.await_other();
          here.fail(gpipe::error("thrown here", "do that", {.stage = 4, .micro_batch = 2, .action = "forward"}));
        }
        const gpipe::error cause = here.recover();
        faults += cause.wrong() != "thrown here" || cause.remedy() != "do that" || cause.where().stage != 4;
        faults += std::chrono::steady_clock::now() - begin > 9s;  // so the failure ended the spin, not its limit
      };
      model.run(
          [&](side& here) {
            check(here, [](side& it) { send_all(it, 2); });
            send_all(here, 20);
          },
          [&](side& here) {
            // Whether these arrive whole is not known: under load the other end may fail before.
            check(here, [](side& it) { receive_all(it, 2, false, Model::counts_samples); });
            faults += receive_all(here, 20, true, Model::counts_samples);
          });
      CHECK(faults == 0);
    }
}

TEST_CASE_TEMPLATE_DEFINE("channel: a deadline without progress ends a wait, and the error names it", Model,
                          channel_deadline) {
  using namespace channel_law;
  for (const bool sender_waits : {false, true}) {
    constexpr auto deadline = 400ms;  // a wait ends after 1 to 1 1/4 of it; a machine under load adds to that
    Model model({1, 1, 1}, {.spin = 1us, .deadline = deadline});
    std::atomic<int> faults{0};
    const auto check = [&](side& here) {
      const bool waits = (here.out != nullptr) == sender_waits;
      const auto begin = std::chrono::steady_clock::now();
      if (waits) is_interrupted(here);  // or it throws the error itself
      else here.await_failure();
      const auto waited = std::chrono::steady_clock::now() - begin;
      faults += waited < deadline * 4 / 5 || waited > deadline * 5 / 2;
      const gpipe::error cause = here.recover();
      const auto& what = sender_waits ? sends : receives;
      faults += std::string(cause.what()).find(what.action) == std::string::npos;
      if (!Model::names_location) return;
      faults += cause.where().stage != what.stage || cause.where().micro_batch != what.micro_batch;
    };
    model.run_lost(check, check);
    CHECK(faults == 0);
  }
}

TEST_CASE_TEMPLATE_DEFINE("channel: nothing is allocated after construction", Model, channel_allocations) {
  using namespace channel_law;
  if (!Model::counts_allocations) return;
  Model model({10, 2, 2}, usual);
  std::atomic<long> found{-1};
  model.run(
      [&](side& here) {
        send_all(here, 20);
        const long before = allocations;
        send_all(here, 200);
        found = allocations - before;
      },
      [&](side& here) {
        receive_all(here, 20, false, Model::counts_samples);
        receive_all(here, 200, false, Model::counts_samples);
      });
  CHECK(found <= 0);
}

/// All cases of the law for a model.
#define CHANNEL_LAW(...)                                    \
  TEST_CASE_TEMPLATE_INVOKE(channel_order, __VA_ARGS__);    \
  TEST_CASE_TEMPLATE_INVOKE(channel_slots, __VA_ARGS__);    \
  TEST_CASE_TEMPLATE_INVOKE(channel_failure, __VA_ARGS__);  \
  TEST_CASE_TEMPLATE_INVOKE(channel_deadline, __VA_ARGS__); \
  TEST_CASE_TEMPLATE_INVOKE(channel_allocations, __VA_ARGS__)
