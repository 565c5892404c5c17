#include <gpipe/tools/best/update_time.hpp>

#include <doctest/doctest.h>

using namespace gpipe;
using namespace gpipe::detail;

namespace {

// A byte takes 1 ns of memory and 10 ns of the link, and a transfer starts in 5 ns.
constexpr device_spec slow{.name = "slow",
                           .memory_bytes_per_second = 1'000'000'000,
                           .link_bytes_per_second = 100'000'000,
                           .link_latency_ns = 5};

}  // namespace

TEST_CASE("an update reads the value, the gradient and the moments, and writes the value and the moments") {
  CHECK(update_time(1000, {.optimizer_moments = 2}, slow) == 7'000'000);
  CHECK(update_time(1000, {.optimizer_moments = 0}, slow) == 3'000'000);
}

TEST_CASE("replicas reduce and gather their gradients, and update all parameters or a share") {
  // 2 x 3 transfers of a quarter: 1,500 bytes, and 6 x 5 ns.
  CHECK(update_time(1000, {.replicas = 4, .optimizer_moments = 0}, slow) == 15'000'000 + 30'000 + 3'000'000);
  CHECK(update_time(1000, {.replicas = 4, .shard = shard::optimizer_state, .optimizer_moments = 0}, slow) ==
        15'000'000 + 30'000 + 750'000);
}
