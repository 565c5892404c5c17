#include <gpipe/transport/in_process/channel.hpp>

#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "support/allocations.hpp"

// The law of gpipe/transport/contract/channel_ends.hpp, over every model. A model brings up both ends with K slots of memory:
//
//   model(K, patience)       sender(), receiver()     the two ends, used by one thread each
//   outgoing(k), incoming(k)                          the slot's bytes as the sender writes and the receiver reads them
//   asleep(end)                                       whether the sender (0) or the receiver (1) truly sleeps
//   poison(), recover()                               what the executor does after a failure, and before the next step

using namespace std::chrono_literals;

namespace {

using payload = std::array<std::uint32_t, 24>;

struct in_process {
  in_process(int slots, gpipe::wait_limits limits)
      : line(2, limits), link(line, 0, 1, slots), memory(static_cast<std::size_t>(slots)) {}

  auto& sender() { return link; }
  auto& receiver() { return link; }
  payload& outgoing(int slot) { return memory[static_cast<std::size_t>(slot)]; }
  const payload& incoming(int slot) { return memory[static_cast<std::size_t>(slot)]; }
  bool asleep(int end) const { return line.asleep(end); }
  void poison() { line.poison(); }
  void recover() {
    line.reset();
    link.reset();
  }

  gpipe::worker_signals line;
  gpipe::channel<> link;
  std::vector<payload> memory;
};

/// Some work of a length that differs from call to call, so that the two threads fall out of step.
struct dawdle {
  std::uint32_t state;
  void operator()() {
    state = state * 1664525u + 1013904223u;
    for (std::uint32_t i = 0; i < state >> 23; ++i) gpipe::detail::pause();
  }
};

std::uint32_t word(int message, std::size_t i) {
  return static_cast<std::uint32_t>(message) * 2654435761u + static_cast<std::uint32_t>(i);
}

template <class Model>
void write(Model& model, int slot, int message) {
  for (std::size_t i = 0; i < payload{}.size(); ++i) model.outgoing(slot)[i] = word(message, i);
}

template <class Model>
bool holds(Model& model, int slot, int message) {
  bool same = true;
  for (std::size_t i = 0; i < payload{}.size(); ++i) same = same && model.incoming(slot)[i] == word(message, i);
  return same;
}

/// Messages 0, 1, ... in rounds of K: sent in slots 0 ... K-1, released last in, first out as a fill-drain stash is,
/// or first in, first out. Message n says that it has n samples.
template <class Model>
int exchange(Model& model, int messages, bool last_first) {
  std::atomic<int> faults{0};
  const int slots = model.sender().slots();
  std::thread receiver([&] {
    dawdle work{7};
    for (int first = 0; first < messages; first += slots) {
      for (int k = 0; k < slots; ++k) {
        if (model.receiver().consume(k) != first + k) ++faults;
        work();
        if (!last_first) {
          if (!holds(model, k, first + k)) ++faults;
          model.receiver().release(k);
        }
      }
      for (int k = slots - 1; last_first && k >= 0; --k) {
        if (!holds(model, k, first + k)) ++faults;
        work();
        model.receiver().release(k);
      }
    }
  });
  dawdle work{3};
  for (int message = 0; message < (messages + slots - 1) / slots * slots; ++message) {
    const int k = message % slots;
    model.sender().acquire(k);
    work();
    write(model, k, message);
    model.sender().publish(k, message);
  }
  receiver.join();
  return faults;
}

/// How a wait ended: 0 it did not, 1 by poison, 2 by a named silence.
template <class Wait>
int ending(Wait wait, gpipe::wait_context what) {
  try {
    wait();
    return 0;
  } catch (const gpipe::detail::interrupted&) {
    return 1;
  } catch (const gpipe::error& e) {
    const bool named = e.where().stage == what.stage && e.where().micro_batch == what.micro_batch &&
                       e.where().action == what.action;
    return named ? 2 : 3;
  }
}

constexpr gpipe::wait_limits spinning{.spin = 10s, .deadline = 60s};
constexpr gpipe::wait_limits sleeping{.spin = 0ns, .deadline = 60s};
constexpr gpipe::wait_limits usual{};
constexpr gpipe::wait_context sends{.stage = 3, .micro_batch = 5, .action = "send_activation"};
constexpr gpipe::wait_context receives{.stage = 4, .micro_batch = 6, .action = "receive_activation"};

/// A sender that waits for slot 0 to be freed, or a receiver that waits for it to be filled.
template <class Model>
int wait_in_vain(Model& model, bool sender) {
  if (!sender) return ending([&] { model.receiver().consume(0, receives); }, receives);
  model.sender().acquire(0);
  model.sender().publish(0, 1);
  return ending([&] { model.sender().acquire(0, sends); }, sends);
}

}  // namespace

TEST_CASE_TEMPLATE("order and content are kept, nothing is lost or doubled", Model, in_process) {
  for (const auto& limits : {usual, sleeping})
    for (const int slots : {1, 2, 5})
      for (const bool last_first : {false, true}) {
        Model model(slots, limits);
        CHECK(exchange(model, 1000, last_first) == 0);
      }
}

TEST_CASE_TEMPLATE("slots are waited for one by one, not in order", Model, in_process) {
  Model model(3, usual);
  for (const int k : {2, 0, 1}) {
    model.sender().acquire(k);
    write(model, k, k);
    model.sender().publish(k, k);
  }
  for (const int k : {1, 2, 0}) {
    CHECK(model.receiver().consume(k) == k);
    CHECK(holds(model, k, k));
  }
  model.receiver().release(2);
  model.sender().acquire(2);
}

TEST_CASE_TEMPLATE("poison wakes sender and receiver, from spin and from sleep", Model, in_process) {
  for (const auto& limits : {spinning, sleeping})
    for (const bool sender : {false, true}) {
      Model model(1, limits);
      std::atomic<int> end{0};
      const auto begin = std::chrono::steady_clock::now();
      std::thread waiter([&] { end = wait_in_vain(model, sender); });
      while (limits.spin == 0ns && !model.asleep(sender ? 0 : 1)) std::this_thread::yield();
      model.poison();
      waiter.join();
      CHECK(end == 1);
      CHECK(std::chrono::steady_clock::now() - begin < 9s);  // so poison ended the spin, not its limit
    }
}

TEST_CASE_TEMPLATE("silence ends the wait and names it", Model, in_process) {
  for (const bool sender : {false, true}) {
    Model model(1, {.spin = 1us, .deadline = 50ms});
    const auto begin = std::chrono::steady_clock::now();
    CHECK(wait_in_vain(model, sender) == 2);
    CHECK(std::chrono::steady_clock::now() - begin >= 50ms);
  }
}

TEST_CASE_TEMPLATE("reset frees every slot, whatever happened before", Model, in_process) {
  Model model(4, usual);
  for (const int k : {1, 2, 3}) model.sender().acquire(k);
  for (const int k : {2, 3}) model.sender().publish(k, k);
  model.receiver().consume(3);
  model.poison();
  CHECK(wait_in_vain(model, false) == 1);
  model.recover();
  CHECK(exchange(model, 100, true) == 0);
}

TEST_CASE_TEMPLATE("nothing is allocated after construction", Model, in_process) {
  Model model(2, usual);
  const long before = allocations;
  for (int i = 0; i < 1000; ++i) {
    model.sender().acquire(i % 2, sends);
    model.sender().publish(i % 2, i);
    model.receiver().consume(i % 2, receives);
    model.receiver().release(i % 2);
  }
  CHECK(allocations == before);
}
