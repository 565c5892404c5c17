#include <gpipe/tools/best/estimates.hpp>

#include <doctest/doctest.h>

#include <gpipe/layer/linear/linear.hpp>
#include <gpipe/layer/loss/softmax_cross_entropy.hpp>
#include <gpipe/model/model.hpp>

using namespace gpipe;
using namespace gpipe::detail;

namespace {

struct two_products : model<input<float, 8>, linear<32>, linear<16>, softmax_cross_entropy> {};
constexpr const network& products = network_of<two_products>;

constexpr plan_options limited(std::int64_t bytes) {
  plan_options o{.stages = 2, .micro_batches = 4, .micro_batch_size = 16, .schedule = schedule_kind::one_f_one_b};
  o.device.memory_limit = bytes;
  return o;
}

}  // namespace

TEST_CASE("the estimate counts parameters, their gradients and moments, and the copies of what backward reads") {
  const memory_estimate memory(products);
  const std::int64_t parameters = 4 * (8 * 32 + 32 + 32 * 16 + 16);
  CHECK(memory.parameter_bytes() == parameters);
  CHECK(memory_estimate::copies_in_flight(limited(1000)) == doctest::Approx(1.5));  // 2 in the first stage, then 1
  const double one = memory.needed_over_had(limited(10'000), 1), two = memory.needed_over_had(limited(10'000), 2);
  CHECK(one > 1.1 * 4 * static_cast<double>(parameters) / 20'000);
  CHECK(two > one);
  CHECK(memory.needed_over_had(limited(5'000), 1) == doctest::Approx(2 * one));
  CHECK(memory.needed_over_had(limited(no_memory_limit), 1) == 0);
}

TEST_CASE("a layer that exceeds every stage's limit is found, and an even cut gives each stage a layer") {
  const memory_estimate memory(products);
  CHECK(memory.exceeds_in_one_layer(limited(1'000)));
  CHECK_FALSE(memory.exceeds_in_one_layer(limited(100'000)));
  int first[3]{};
  memory.cut_evenly(limited(1'000), first);
  CHECK(first[0] == 0);
  CHECK(first[1] == 1);
  CHECK(first[2] == products.layer_count);
}

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
