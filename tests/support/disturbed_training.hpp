#pragma once

// A training that fails on purpose, for the laws of failures.

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include <gpipe/tools/testing/emulated_link.hpp>

#include "support/nets.hpp"

namespace disturbed {

using namespace laws;
using namespace std::chrono_literals;

/// Selects the kernel of `fuse` that throws.
struct trap_of {
  std::atomic<int> id{-1}, first_sample{0}, passes{0};
  std::atomic<action_kind> where{action_kind::idle};
};
inline trap_of trap;

/// y = x w. Its kernels may throw.
template <int Id>
struct fuse {
  template <class In>
  struct on;
  template <class T, int N>
  struct on<tensor<T, N>> {
    using output = tensor<T, N>;
    static constexpr parameter parameters[] = {{"weight", {N}, initializer::uniform(1)}};
    static constexpr keep keeps{.input = true};
    static void blow(action_kind where, const auto& a) {
      if (trap.id == Id && trap.where == where && static_cast<int>(a.random().first_sample) == trap.first_sample &&
          trap.passes.fetch_sub(1) == 0)
        throw std::runtime_error("blown");
    }
    static void forward(const auto&, const auto& a) {
      loop(a.samples() * N, [&](int i) { a.out()[i] = a.in()[i] * a.template parameter<0>()[i % N]; });
      blow(action_kind::forward, a);
    }
    static void backward_input(const auto&, const auto& a) {
      loop(a.samples() * N,
           [&](int i) { a.in_gradient()[i] = a.out_gradient()[i] * a.template parameter<0>()[i % N]; });
      blow(action_kind::backward_input, a);
    }
    static void backward_parameters(const auto&, const auto& a) {
      loop(a.samples() * N, [&](int i) { a.template gradient<0>()[i % N] += a.out_gradient()[i] * a.in()[i]; });
      blow(action_kind::backward_parameters, a);
    }
  };
};

/// 8 layers. Three stages have links from the first to the second and third, and from the second to the third.
struct net : model<input<float, 12>, fuse<0>, dropout<20>, stash<"x">, fuse<1>, relu, fuse<2>, pop<"x">, add, fuse<3>,
                   passing_loss> {};
/// A network with parameters and moving averages.
struct averaging_net : model<input<float, 12>, fuse<4>, batch_norm<>, fuse<5>, batch_norm<>, passing_loss> {};

template <class T>
inline const samples<T> data_of{120, 12, 1};
inline const samples<float>& data = data_of<float>;
inline constexpr int M = 4, batch_size = 11;  // 3 + 3 + 3 + 2 samples
inline const std::vector<int> cuts[] = {{}, {2, 4}, {1, 2, 3, 4, 5, 6, 7}};

/// A disturbed training and its undisturbed twin: both must be the same after each failure. The network reads T.
template <class Net, class T = float>
struct pair_of {
  using training = trainer<Net, adam>;
  training_options how;
  std::function<void(const instruction&)> disturbance;  // called by all workers before each instruction
  training disturbed, twin;
  int steps = 0;

  explicit pair_of(const std::vector<int>& cut, std::chrono::nanoseconds deadline = 60s,
                   schedule_kind schedule = schedule_kind::fill_drain, std::int64_t link_bytes_per_second = 0,
                   int replicas = 1, shard shares = shard::none)
      : how(options(cut, deadline)),
        disturbed(plan(cut, schedule, replicas, shares), adam{}, hooked(link_bytes_per_second)),
        twin(plan({}, schedule_kind::fill_drain, replicas), adam{}, options({}, 60s)) {}

  static plan_options plan(const std::vector<int>& cut, schedule_kind schedule = schedule_kind::fill_drain,
                           int replicas = 1, shard shares = shard::none) {
    return {.stages = static_cast<int>(cut.size()) + 1,
            .micro_batches = M,
            .micro_batch_size = 3,
            .recompute = recompute_mode::always,
            .schedule = schedule,
            .replicas = replicas,
            .shard = shares};
  }
  static training_options options(const std::vector<int>& cut, std::chrono::nanoseconds deadline) {
    training_options o;
    o.seed = 3;
    o.max_grad_norm = 0.5;
    o.cut = cut;
    o.deadline = deadline;
    return o;
  }
  training_options hooked(std::int64_t link_bytes_per_second) {
    training_options o = how;
    o.link_bytes_per_second = link_bytes_per_second;
    o.before = [this](const instruction& i) {
      if (disturbance) disturbance(i);
    };
    return o;
  }

  batch next() const { return data_of<T>.take(steps * batch_size % 100, batch_size); }

  /// The step must fail and change nothing. Returns its error.
  error failure(const batch& with) {
    const std::uint64_t before = state_of(disturbed);
    error found("no failure", "");
    try {
      disturbed.step(with);
    } catch (const error& cause) {
      found = cause;
    }
    CHECK(found.wrong() != "no failure");
    CHECK(state_of(disturbed) == before);
    CHECK(replicas_agree(disturbed));
    disturbance = {};
    trap.id = -1;
    return found;
  }
  error failure() { return failure(next()); }

  /// The next step gives the twin's bits.
  void recovers() {
    const step_result expected = twin.step(next()), found = disturbed.step(next());
    ++steps;
    CHECK(found.loss == expected.loss);
    CHECK(found.norm == expected.norm);
    CHECK(state_of(disturbed) == state_of(twin));
    CHECK(replicas_agree(disturbed));
  }
};

using pair = pair_of<net>;

inline bool has(const error& e, const char* part) { return std::string(e.what()).find(part) != std::string::npos; }

}  // namespace disturbed
