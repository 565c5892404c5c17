#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <tuple>
#include <vector>

#include <gpipe/tools/report/report.hpp>
#include <gpipe/train/trainer.hpp>

#include "support/nets.hpp"

// A training whose workers are bound to cores of their own: each worker runs on its cores and has its stages' memory
// near them, the caller is bound during calls alone, and the bits are those of a training without.

using namespace gpipe;

namespace {

/// Single cores, one worker after the other, and the memory that was moved.
struct single_cores : core_placement {
  struct moved {
    const void* memory;
    std::size_t bytes;
    core_set near;
  };
  bool refuses = false;
  mutable std::vector<moved> all{};

  std::vector<core_set> divide(int workers, const host_cores&) const override {
    const core_set allowed = gpipe::detail::cores::allowed_bits();
    std::vector<core_set> found;
    for (std::size_t c = 0; static_cast<int>(found.size()) < workers; c = (c + 1) % 1024)
      if ((allowed[c / 64] >> c % 64 & 1) != 0) found.emplace_back()[c / 64] = std::uint64_t{1} << c % 64;
    return found;
  }
  bool move_near(void* memory, std::size_t bytes, const core_set& near) const noexcept override {
    all.push_back({memory, bytes, near});
    return !refuses;
  }
};

using bound_net = laws::residual_net<float>;
const laws::samples<float> bound_rows(40, 12, 1);

}  // namespace

#if defined(__linux__)
TEST_CASE("bound workers of every schedule run on their cores, with the bits of free ones") {
  const core_set before = gpipe::detail::cores::allowed_bits();
  for (const auto& [kind, stages, replicas] : {std::tuple{schedule_kind::fill_drain, 2, 1},
                                               {schedule_kind::interleaved, 4, 1},
                                               {schedule_kind::zb_v, 4, 1},
                                               {schedule_kind::one_f_one_b, 2, 2}}) {
    const plan_options plan{
        .stages = stages, .micro_batches = 4, .micro_batch_size = 4, .schedule = kind, .replicas = replicas};
    const single_cores placement;
    const auto expected = placement.divide(2 * replicas, {});
    std::vector<core_set> seen(detail::index(stages));
    training_options how{.seed = 3};
    trainer<bound_net, adam> free(plan, {}, how);
    how.cores = &placement;
    if (replicas == 1)
      how.before = [&](const instruction& it) { seen[detail::index(it.stage)] = gpipe::detail::cores::allowed_bits(); };
    trainer<bound_net, adam> bound(plan, {}, how);
    for (int i = 0; i < 2; ++i) {
      const batch data = bound_rows.take(16 * i, 16);
      CHECK(bound.step(data).loss == free.step(data).loss);
    }
    CHECK(bound.evaluate(bound_rows.take(0, 16)).loss == free.evaluate(bound_rows.take(0, 16)).loss);
    CHECK(bound.parameter_hash() == free.parameter_hash());
    CHECK(gpipe::detail::cores::allowed_bits() == before);

    // The whole arena of each stage is moved once, to its worker.
    REQUIRE(static_cast<int>(placement.all.size()) == stages * replicas);
    for (int r = 0, i = 0; r < replicas; ++r)
      for (int s = 0; s < stages; ++s, ++i) {
        const int worker = r * bound.plan().workers() + bound.plan().worker_of(s);
        const auto& it = placement.all[detail::index(i)];
        CHECK(it.bytes == static_cast<std::size_t>(bound.plan().memory(s).total()));
        CHECK(it.near == expected[detail::index(worker)]);
        if (replicas == 1) CHECK(seen[detail::index(s)] == expected[detail::index(worker)]);
        for (int other = 0; other < i; ++other) CHECK(placement.all[detail::index(other)].memory != it.memory);
      }
    for (const stage_report& s : bound.report()) {
      CHECK(s.own_cores == 1);
      CHECK(!s.far_memory);
    }
  }
}

TEST_CASE("the caller may run where it could before, also after a step that throws") {
  const core_set before = gpipe::detail::cores::allowed_bits();
  const single_cores placement;
  for (const int thrower : {0, 1}) {
    bool throws = true;
    training_options how{.cores = &placement};
    how.before = [&](const instruction& it) {
      if (throws && it.stage == thrower) throw std::runtime_error("broken");
    };
    trainer<bound_net, adam> training(plan_options{.stages = 2, .micro_batches = 4, .micro_batch_size = 4}, {}, how);
    CHECK_THROWS_AS(training.step(bound_rows.take(0, 16)), error);
    CHECK(gpipe::detail::cores::allowed_bits() == before);
    throws = false;
    training.step(bound_rows.take(0, 16));
    CHECK(gpipe::detail::cores::allowed_bits() == before);
  }
}

TEST_CASE("a training goes on if the system refuses to move memory, and its report counts the stages") {
  single_cores placement;
  placement.refuses = true;
  trainer<bound_net, adam> training(plan_options{.stages = 3, .micro_batches = 4, .micro_batch_size = 4}, {},
                                    training_options{.cores = &placement});
  training.step(bound_rows.take(0, 16));
  for (const stage_report& s : training.report()) CHECK(s.far_memory);
  CHECK(own_cores_note(training.report()).find("move the memory of 3 stages near them") != std::string::npos);
}
#endif
