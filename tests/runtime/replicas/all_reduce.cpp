#include <gpipe/runtime/replicas/all_reduce.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

#include <gpipe/device/host/host.hpp>
#include <gpipe/make_plan.hpp>

#include "support/replica_gradients.hpp"

using namespace laws;

namespace {

/// Two stages, one of which has partials.
struct net : model<input<float, 48>, linear<80>, gelu, linear<9>, softmax_cross_entropy> {};

constexpr int R = 3;
constexpr wait_context reduces{.stage = 0, .micro_batch = -1, .action = "reduce"};

/// Three replicas on a thread each.
struct replica_set {
  step_plan plan;
  gpipe::detail::rank_layout here{plan, nullptr};
  gpipe::detail::worker_signals wake_signals{R};
  gpipe::detail::replica_list all;
  gpipe::detail::shared_all_reduce sums{gpipe::detail::device_of<gpipe::host_device>, network_of<net>, plan,
                                        wake_signals, all};

  explicit replica_set(shard shares = shard::none)
      : plan(make_plan(
            network_of<net>,
            {.stages = 2, .micro_batches = 2, .micro_batch_size = 2, .workers = 1, .replicas = R, .shard = shares},
            {2})) {
    all.make(gpipe::detail::device_of<gpipe::host_device>, network_of<net>, plan, here, wake_signals, {},
             gpipe::detail::kernels_of<net, host::context>);
    gpipe::detail::step_context step;
    step.rows.samples = 12, step.per_micro_batch = 2;
    all.each([&](auto& it) { it.begin(step); });
  }
  /// Runs `body(r)` on the thread of each replica. Returns how many waits ended by a failure.
  template <class Body>
  int run(const Body& body) {
    std::atomic<int> thrown{0};
    std::vector<std::thread> threads;
    for (int r = 0; r < R; ++r)
      threads.emplace_back([&, r] {
        try {
          body(r);
        } catch (const detail::interrupted&) {
          ++thrown;
        }
      });
    for (auto& t : threads) t.join();
    return thrown;
  }
};

}  // namespace

TEST_CASE("every replica gets the sums, made in ascending order of replicas, in every stage and step") {
  replica_set its;
  for (int step = 0; step < 3; ++step) {
    its.all.each([](auto& it) { fill(it.stage(0), it.number()), fill(it.stage(1), it.number()); });
    CHECK(its.run([&](int r) {
      for (int s = 0; s < 2; ++s) its.sums.sum(r, s, reduces, true);
    }) == 0);
    its.all.each_stage([](const auto& stage) { CHECK(wrong_sums(stage, R) == 0); });
  }
}

TEST_CASE("in an accumulate pass the first replica gets the sums, and the others get zeros") {
  replica_set its;
  its.all.each([](auto& it) { fill(it.stage(0), it.number()); });
  its.run([&](int r) { its.sums.sum(r, 0, reduces, false); });
  CHECK(wrong_sums(its.all.at(0).stage(0), R) == 0);
  for (int r = 1; r < R; ++r) CHECK(not_zero(its.all.at(r).stage(0)) == 0);
}

TEST_CASE("with shares every replica gets the sums of its own, and then the parameters of all") {
  replica_set its(shard::optimizer_state);
  its.all.each([](auto& it) { fill(it.stage(1), it.number()); });
  its.run([&](int r) { its.sums.sum(r, 1, reduces, true); });
  std::int64_t bytes = 0;
  its.all.each([&](auto& it) {
    const auto& stage = it.stage(1);
    CHECK(wrong_sums_of_share(stage, R) == 0);
    std::fill_n(stage.parameters(), stage.flat_bytes(), std::byte(it.number() + 1));
    bytes += stage.share().bytes;
  });
  CHECK(bytes == static_cast<std::int64_t>(its.all.at(0).stage(1).flat_bytes()));
  its.run([&](int r) { its.sums.gather(r, 1, reduces); });
  its.all.each([&](auto& it) {
    its.all.each([&](auto& owner) {
      const stage_share& share = owner.stage(1).share();
      for (std::int64_t at = share.begin; at < share.end(); ++at)
        CHECK(it.stage(1).parameters()[at] == std::byte(owner.number() + 1));
    });
  });
}

TEST_CASE("every replica gets the partials of all micro-batches") {
  replica_set its;
  const auto partials = [&](int r) { return reinterpret_cast<double*>(its.all.at(r).stage(1).at(3).partials.base); };
  const std::size_t apart = its.all.at(0).stage(1).at(3).partials.stride / sizeof(double);
  for (int r = 0; r < R; ++r)
    for (int m = 2 * r; m < 2 * r + 2; ++m) partials(r)[static_cast<std::size_t>(m) * apart] = 100 + m;
  its.run([&](int r) { its.sums.sum(r, 1, reduces, true); });
  for (int r = 0; r < R; ++r)
    for (int m = 0; m < 2 * R; ++m) CHECK(partials(r)[static_cast<std::size_t>(m) * apart] == 100 + m);
}

TEST_CASE("the failure of a replica ends the waits of the others") {
  replica_set its;
  CHECK(its.run([&](int r) {
    if (r == 1) its.wake_signals.wake_all();
    else its.sums.sum(r, 0, reduces, true);
  }) == R - 1);
}
