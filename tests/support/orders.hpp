#pragma once

// The actions of threads over the in-process channel, barrier and signals, run in one order after another by a
// scheduler of the test. The classes are those of the library; only their primitives are others.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <gpipe/core/error.hpp>
#include <gpipe/transport/in_process/channel.hpp>
#include <gpipe/transport/in_process/worker_signals.hpp>

#include "support/controlled.hpp"

namespace orders {

using namespace std::chrono_literals;
using controlled::ending;
using controlled::plant;
using controlled::world;

inline constexpr gpipe::wait_limits sleeping{.spin = 0ns, .yields = true, .deadline = 8s};
inline constexpr gpipe::wait_limits spinning{.spin = 3us, .yields = true, .deadline = 8s};

/// How a call that may wait ended.
enum class fate { none, returned, interrupted, timed_out };

template <class Call>
fate fate_of(Call&& call) {
  fate found = fate::returned;
  try {
    call();
  } catch (const gpipe::detail::interrupted&) {
    found = fate::interrupted;
  } catch (const gpipe::error&) {
    found = fate::timed_out;
  }
  return found;
}

/// Runs each scenario with the primitives that `Fault` makes wrong. A call returns the first thing that is not as it
/// should be, or an empty text.
template <plant Fault = plant::nothing>
class scenarios {
 public:
  using primitives = controlled::primitives<Fault>;
  using wake_signals = gpipe::detail::basic_worker_signals<primitives>;
  using barrier = gpipe::detail::basic_barrier<primitives>;
  using channel = gpipe::detail::channel<gpipe::unmarked, primitives>;
  using scenario = std::string (scenarios::*)(controlled::chooser&, const gpipe::wait_limits&);

  std::string one_slot(controlled::chooser& by, const gpipe::wait_limits& limits) {
    return exchange(by, limits, {0, 0, 0});
  }
  std::string two_slots(controlled::chooser& by, const gpipe::wait_limits& limits) {
    return exchange(by, limits, {0, 1, 0});
  }

  /// Each of three passes on what it got.
  std::string relay(controlled::chooser& by, const gpipe::wait_limits& limits) {
    wake_signals s(3, limits);
    channel first(s, 0, 1, {0, 0}), second(s, 1, 2, {0, 0});
    int a = 0, b = 0, wrong = 0;
    return result_of(run({[&] {
                            for (int m = 0; m < 2; ++m) send(first, m, a, 7 + m);
                          },
                          [&] {
                            for (int m = 0; m < 2; ++m) {
                              first.consume(m);
                              send(second, m, b, a);
                              first.release(m);
                            }
                          },
                          [&] {
                            for (int m = 0; m < 2; ++m) receive(second, m, b, 7 + m, wrong);
                          }},
                         by),
                     wrong);
  }

  /// Two rounds of three; the last to arrive sums up what all have written.
  std::string meeting(controlled::chooser& by, const gpipe::wait_limits& limits) {
    wake_signals s(3, limits);
    barrier at(s, 3);
    int given[3] = {}, sum = 0, commits = 0, wrong = 0;
    const auto work = [&](int me) {
      for (int round = 1; round <= 2; ++round) {
        given[me] = round;
        at.arrive(me, {}, [&]() noexcept {
          world::current().point();
          sum = given[0] + given[1] + given[2];
          ++commits;
        });
        wrong += sum != 3 * round || commits != round;
        at.arrive(me);
      }
    };
    return result_of(run({[&] { work(0); }, [&] { work(1); }, [&] { work(2); }}, by), wrong);
  }

  /// The first fails; the second waits for a value, the last for a slot.
  std::string failure(controlled::chooser& by, const gpipe::wait_limits& limits) {
    wake_signals s(3, limits);
    channel values(s, 0, 1, {0, 0}), memory_slots(s, 2, 0, {0, 0});
    fate found[2] = {};
    const ending how = run({[&] { s.wake_all(); }, [&] { found[0] = fate_of([&] { values.consume(0); }); },
                            [&] {
                              found[1] = fate_of([&] {
                                memory_slots.acquire(0);
                                memory_slots.publish(0, 1);
                                memory_slots.acquire(1);
                              });
                            }},
                           by);
    return result_of(how, found[0] != fate::interrupted || found[1] != fate::interrupted);
  }

  /// A failure while three come to a barrier: the commit runs and all return, or it does not and all throw.
  std::string failed_meeting(controlled::chooser& by, const gpipe::wait_limits& limits) {
    wake_signals s(4, limits);
    barrier at(s, 3);
    int commits = 0, wrong = 0;
    fate found[3] = {};
    const auto come = [&](int me) {
      found[me] = fate_of([&] {
        at.arrive(me, {}, [&]() noexcept {
          world::current().point();
          ++commits;
        });
        wrong += commits != 1;
      });
    };
    const ending how = run({[&] { come(0); }, [&] { come(1); }, [&] { come(2); }, [&] { s.wake_all(); }}, by);
    wrong += commits > 1;
    for (const fate f : found) wrong += f != (commits == 1 ? fate::returned : fate::interrupted);
    return result_of(how, wrong);
  }

  /// Nothing is ever sent: after 1 to 1 1/4 deadlines one reports it, and the other is interrupted.
  std::string no_sender(controlled::chooser& by, const gpipe::wait_limits& limits) {
    wake_signals s(2, limits);
    channel there(s, 0, 1, {0}), back(s, 1, 0, {0});
    fate found[2] = {};
    const ending how = run(
        {[&] { found[0] = fate_of([&] { back.consume(0); }); }, [&] { found[1] = fate_of([&] { there.consume(0); }); }},
        by);
    const auto took = world_.now();
    const bool one = (found[0] == fate::timed_out && found[1] == fate::interrupted) ||
                     (found[1] == fate::timed_out && found[0] == fate::interrupted);
    if (how == ending::done && (took < limits.deadline || took > limits.deadline * 5 / 4 + 1ms))
      return "wrong deadline";
    return result_of(how, !one, true);
  }

  /// Between steps: a worker waits without a deadline, and another gives it work twice.
  std::string idle_worker(controlled::chooser& by, const gpipe::wait_limits& limits) {
    wake_signals s(2, limits);
    typename primitives::template atomic<int> given{0}, done{0};
    const ending how = run({[&] {
                              for (int call = 1; call <= 2; ++call) {
                                given.store(call);
                                s.wake(1);
                                s.wait_idle(0, [&] { return done.load() == call; });
                              }
                            },
                            [&] {
                              for (int call = 1; call <= 2; ++call) {
                                s.wait_idle(1, [&] { return given.load() == call; });
                                done.store(call);
                                s.wake(0);
                              }
                            }},
                           by);
    return result_of(how, false);
  }

  static constexpr scenario all[] = {&scenarios::one_slot,  &scenarios::two_slots,  &scenarios::relay,
                                     &scenarios::meeting,   &scenarios::failure,    &scenarios::failed_meeting,
                                     &scenarios::no_sender, &scenarios::idle_worker};
  static constexpr const char* names[] = {"a channel of one slot",
                                          "a channel of two slots",
                                          "a relay of three",
                                          "a barrier",
                                          "a failure",
                                          "a failure at a barrier",
                                          "a deadline",
                                          "an idle worker"};

 private:
  ending run(std::vector<std::function<void()>> bodies, controlled::chooser& by) {
    primitives::late = {};
    for (auto& body : bodies)
      body = [work = std::move(body)] {
        work();
        primitives::finish();
      };
    return world_.run(std::move(bodies), by);
  }
  std::string result_of(ending how, int wrong, bool waits = false) const {
    if (how == ending::deadlock) return "deadlock";
    if (how == ending::endless) return "no end";
    if (wrong) return "wrong values";
    return !waits && world_.jumps() > 0 ? "lost wake" : "";
  }

  // In two halves, so that a reader between them sees what no thread should.
  static void send(channel& to, int m, int& memory, int value) {
    to.acquire(m);
    memory = -1;
    world::current().point();
    memory = value;
    to.publish(m, m + 1);
  }
  static void receive(channel& from, int m, const int& memory, int value, int& wrong) {
    wrong += from.consume(m) != m + 1 || memory != value;
    world::current().point();
    wrong += memory != value;
    from.release(m);
  }

  std::string exchange(controlled::chooser& by, const gpipe::wait_limits& limits, const std::vector<int>& slot) {
    wake_signals s(2, limits);
    channel values(s, 0, 1, slot);
    int memory[2] = {}, wrong = 0;
    const int messages = static_cast<int>(slot.size());
    const auto at = [&](int m) -> int& { return memory[slot[static_cast<std::size_t>(m)]]; };
    const ending how = run({[&] {
                              for (int m = 0; m < messages; ++m) send(values, m, at(m), 10 + m);
                            },
                            [&] {
                              for (int m = 0; m < messages; ++m) receive(values, m, at(m), 10 + m, wrong);
                            }},
                           by);
    return result_of(how, wrong);
  }

  world world_;
};

inline constexpr int scenario_count = 8;

/// The number of orders that ran, and the first fault.
struct tally {
  long orders = 0;
  std::string fault;  ///< the first, with its scenario; empty: none
};

/// `count` orders from `seed` on, of all scenarios in turn, until the first fault.
template <plant Fault = plant::nothing>
tally run_random(long count, std::uint64_t seed = 1) {
  scenarios<Fault> its;
  tally found;
  for (; found.orders < count && found.fault.empty(); ++found.orders) {
    const auto i = static_cast<std::size_t>(found.orders % scenario_count);
    controlled::random_orders by(seed + static_cast<std::uint64_t>(found.orders));
    const std::string fault = (its.*its.all[i])(by, found.orders / scenario_count % 2 == 0 ? sleeping : spinning);
    if (!fault.empty()) found.fault = std::string(its.names[i]) + ": " + fault;
  }
  return found;
}

/// All orders of each scenario with at most `bound` preemptions, at most `limit` of each.
template <plant Fault = plant::nothing>
tally run_bounded(int bound, long limit) {
  scenarios<Fault> its;
  tally found;
  for (std::size_t i = 0; i < scenario_count; ++i) {
    controlled::bounded_orders by(bound);
    long left = limit;
    do {
      ++found.orders;
      const std::string fault = (its.*its.all[i])(by, sleeping);
      if (!fault.empty()) {
        found.fault = std::string(its.names[i]) + ": " + fault;
        return found;
      }
    } while (--left > 0 && by.next());
  }
  return found;
}

}  // namespace orders
