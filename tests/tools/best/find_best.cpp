// optimize: yes

#include <gpipe/tools/best/find_best.hpp>

#include <doctest/doctest.h>

#include <limits>
#include <string>
#include <vector>

#include <gpipe/layer/activation/gelu.hpp>
#include <gpipe/layer/linear/linear.hpp>
#include <gpipe/layer/loss/softmax_cross_entropy.hpp>
#include <gpipe/layer/normalization/batch_norm.hpp>
#include <gpipe/layer/normalization/layer_norm.hpp>
#include <gpipe/make_plan.hpp>
#include <gpipe/model/model.hpp>
#include <gpipe/plan/summary.hpp>
#include <gpipe/tools/best/estimates.hpp>

using namespace gpipe;

namespace {

struct net
    : model<input<float, 64>, linear<256>, gelu, linear<256>, gelu, linear<256>, gelu, linear<256>, gelu, linear<64>> {
};
const network& it = network_of<net>;

}  // namespace

TEST_CASE("the best plan is made as it was predicted, and its step is that of the plan and its update") {
  for (const int devices : {1, 2, 3, 4}) {
    const best_plan best = find_best(it, {.devices = devices, .batch = 24}, {.memory_limit = 6'000'000});
    const step_plan made = make_plan(it, best.options, best.cut);
    std::int64_t update = 0;
    for (int w = 0; w < made.workers(); ++w) {
      std::int64_t bytes = 0;
      for (int l = 0; l < it.layer_count; ++l)
        if (made.worker_of(made.cut().stage_of(l)) == w) bytes += static_cast<std::int64_t>(it.own_bytes(l));
      update = std::max(update, detail::update_time(bytes, best.options, best.options.device));
    }
    CAPTURE(devices);
    CHECK(best.step == step_time(it, made) + update);
    CHECK(best.winner.replicas * best.winner.workers <= devices);
    CHECK(made.max_batch() >= 24);
    CHECK(best.min <= best.step);
    CHECK(best.gap() >= 0);
    for (const plan_candidate& next : best.next) CHECK(next.step >= best.step);
    const best_plan again = find_best(it, {.devices = devices, .batch = 24}, {.memory_limit = 6'000'000});
    CHECK(again.step == best.step);
    CHECK(again.winner.schedule == best.winner.schedule);
  }
}

TEST_CASE("choices that are fixed stay, and cost at least the best step") {
  const std::int64_t free = find_best(it, {.devices = 4, .batch = 32}).step;
  const best_plan fixed =
      find_best(it, {.devices = 4, .batch = 32, .workers = 2, .micro_batch_size = 4, .schedule = schedule_kind::zb_h1});
  CHECK(fixed.winner.workers == 2);
  CHECK(fixed.winner.micro_batch_size == 4);
  CHECK(fixed.winner.schedule == schedule_kind::zb_h1);
  CHECK(fixed.step >= free);
}

TEST_CASE("a model with batch norms gets no micro-batch of one sample, unless it is fixed") {
  struct normed : model<input<float, 64>, linear<256>, batch_norm<>, linear<256>, softmax_cross_entropy> {};
  const network& net = network_of<normed>;
  device_spec device = this_cpu;  // small micro-batches cost nothing
  device.memory_bytes_per_second = 1'000'000'000'000'000;
  device.launch_ns = 0;
  const plan_space space{.devices = 2, .batch = 16, .replicas = 1, .workers = 2};
  plan_space any = space;
  any.min_micro_batch_size = 1;
  CHECK(find_best(net, any, {.device = device}).winner.micro_batch_size == 1);
  CHECK(find_best(net, space, {.device = device}).winner.micro_batch_size >= 2);
  plan_space fixed = space;
  fixed.micro_batch_size = 1;
  CHECK(find_best(net, fixed, {.device = device}).winner.micro_batch_size == 1);
  any.min_micro_batch_size = 17;
  CHECK_THROWS_WITH(find_best(net, any), "min_micro_batch_size is 17; choose 0 to 16");
}

TEST_CASE("a plan that a training needs more memory for names the limit that was given") {
  const best_plan best =
      find_best(it, {.devices = 2, .batch = 16, .workers = 2, .schedule = schedule_kind::one_f_one_b},
                {.memory_limit = 4'000'000});
  plan_options larger = best.options;
  CHECK(larger.memory_limit == 4'000'000);
  CHECK(larger.device.memory_limit == no_memory_limit);
  larger.micro_batch_size = 4096;
  try {
    make_plan(it, larger, best.cut);
    FAIL("4 MB do not hold 4096 samples");
  } catch (const error& too_large) {
    CHECK(too_large.wrong().starts_with("memory_limit is 4000000 bytes"));
  }
}

TEST_CASE("devices that differ get the stages that suit them") {
  device_spec fast = this_cpu;
  fast.float32 *= 4;
  const device_spec each[] = {fast, this_cpu};
  const best_plan best =
      find_best(it, {.devices = 2, .batch = 32, .workers = 2, .schedule = schedule_kind::one_f_one_b},
                {.devices = each, .device_count = 2});
  const step_plan made = make_plan(it, best.options, best.cut);
  CHECK(best.winner.replicas == 1);
  CHECK(made.first[1] > it.layer_count / 2);
  CHECK(made.options.limit_of(0) == no_memory_limit);
  const best_plan limited = find_best(it, {.devices = 2, .batch = 32, .workers = 2},
                                      {.devices = each, .device_count = 2, .memory_limit = 4'000'000});
  const step_plan held = make_plan(it, limited.options, limited.cut);
  for (int w = 0; w < 2; ++w) {
    std::int64_t bytes = 0;
    for (int s = 0; s < held.stages(); ++s)
      if (held.worker_of(s) == w) bytes += held.memory(s).total();
    CHECK(bytes <= 4'000'000);
  }
}

TEST_CASE("a limit that no plan obeys is an error that names the fewest bytes, and these suffice") {
  std::int64_t least = 0;
  try {
    find_best(it, {.devices = 2, .batch = 8}, {.memory_limit = 10'000});
    FAIL("10,000 bytes do not fit");
  } catch (const error& none) {
    CHECK(none.wrong().ends_with("that fits the memory limit"));
    CHECK(none.remedy().starts_with("choose "));
    least = std::stoll(none.remedy().substr(7));
  }
  CHECK(least > 10'000);
  CHECK_NOTHROW(find_best(it, {.devices = 2, .batch = 8}, {.memory_limit = least}));
}

TEST_CASE("an effort that is spent leaves plans open, and their bounds count") {
  const best_plan all = find_best(it, {.devices = 8, .batch = 512}),
                  some = find_best(it, {.devices = 8, .batch = 512}, {}, 0.001);
  CHECK(some.step >= all.step);
  CHECK(some.min <= all.step);
  CHECK(some.open > 0);
}

TEST_CASE("options and cut are of one plan, also if several have the same step") {
  struct equal : model<input<float, 64>, linear<64>, linear<64>, linear<64>, softmax_cross_entropy> {};
  device_spec device = this_cpu;
  device.float32 = 1'000'000'000;
  device.memory_bytes_per_second = 16'000'000'000;
  device.link_bytes_per_second = 256'000'000;
  device.link_latency_ns = 1;
  device.launch_ns = 2;
  const network& net = network_of<equal>;
  const best_plan best = find_best(net, {.devices = 2, .batch = 3}, {.shard = shard::gradients, .device = device});
  CHECK(static_cast<int>(best.cut.size()) + 1 == best.options.stages);
  CHECK_NOTHROW(make_plan(net, best.options, best.cut));
}

TEST_CASE("an effort that is spent at once still finds a plan, and one that is no number is refused") {
  CHECK(find_best(it, {.devices = 64, .batch = 512}, {}, 0.001).step > 0);
  for (const double effort : {0.0, -1.0, std::numeric_limits<double>::quiet_NaN(), 1e300})
    CHECK_THROWS_WITH(find_best(it, {.devices = 2, .batch = 8}, {}, effort),
                      "the effort of a search is not a number above 0; choose 1 for about a second");
  CHECK_THROWS_WITH(
      find_best(it, {.devices = 2, .batch = 8}, {.device_count = 2}),
      "devices is null and device_count is 2; give both, a device for each of the space: .devices = each, "
      ".device_count = 2");
  CHECK_THROWS_AS(find_best(it, {.devices = 2, .batch = 8}, {.optimizer_moments = 99}), error);
}

TEST_CASE("the best plan in words: the winner, five more, and the certificate") {
  const best_plan best = find_best(it, {.devices = 4, .batch = 32});
  const std::string text = describe(best);
  CHECK(text.starts_with("The best plan for 4 devices and mini-batches of 32 samples:\n"));
  CHECK(best.next.size() == 5);
  CHECK(text.find("this one is at most ") != std::string::npos);
  CHECK(text.find(" % from the best of " + std::to_string(best.plans) + " plans.") != std::string::npos);
}

TEST_CASE("options that no plan of the network can have are refused as by make_plan") {
  const auto message = [](const auto& run) -> std::string {
    try {
      run();
    } catch (const error& e) {
      return e.what();
    }
    return "";
  };
  for (const plan_options& bad :
       {plan_options{.precision = precision::bf16}, plan_options{.recompute_layers = {"none"}},
        plan_options{.recompute_layers = {"linear"}}}) {
    const std::string said = message([&] { make_plan(it, bad); });
    CHECK(!said.empty());
    CHECK(message([&] { find_best(it, {.devices = 2, .batch = 8}, bad); }) == said);
  }
}

TEST_CASE("make_best_plan makes the best plan, whose devices stay") {
  device_spec fast = this_cpu;
  fast.float32 *= 4;
  const device_spec each[] = {this_cpu, fast};
  const plan_space space{.devices = 2, .batch = 32, .workers = 2};
  const step_plan made = make_best_plan(it, space, {.devices = each, .device_count = 2});
  const best_plan best = find_best(it, space, {.devices = each, .device_count = 2});
  CHECK(std::vector<int>(made.first.begin() + 1, made.first.end() - 1) == best.cut);
  CHECK(step_time(it, made) + best.update == best.step);
  CHECK(made.options.devices == made.devices->data());
}

TEST_CASE("with interleaved the plan has the step that was found, and no warm-up is shorter than the bound") {
  struct block : residual<layer_norm, linear<64>, gelu, linear<32>> {};
  struct blocks : model<input<float, 16>, linear<32>, repeat<6, block>, linear<4>, softmax_cross_entropy> {};
  const network& net = network_of<blocks>;
  for (const int batch : {8, 12, 17})
    for (const std::int64_t limit : {no_memory_limit, std::int64_t{400'000}, std::int64_t{600'000}}) {
      CAPTURE(batch);
      CAPTURE(limit);
      plan_space space{.devices = 2, .batch = batch, .replicas = 1, .workers = 2, .micro_batches = 6, .max_chunks = 2};
      space.schedule = schedule_kind::interleaved;
      const best_plan best = find_best(net, space, {.memory_limit = limit});
      const step_plan made = make_plan(net, best.options, best.cut);
      CHECK(step_time(net, made) + best.update == best.step);
      for (const warmup_kind warmup : {warmup_kind::shortest, warmup_kind::longest})
        for (int by = -1; by <= 1; ++by)
          for (std::size_t k = 0; k < best.cut.size(); ++k) {
            plan_options o = best.options;
            o.warmup = warmup;
            std::vector<int> cut = best.cut;
            cut[k] += by;
            try {
              const step_plan other = make_plan(net, o, cut);
              CHECK(step_time(net, other) + detail::update_time(net, o, other.first.data()) >= best.min);
            } catch (const error&) {  // it does not fit
            }
          }
    }
}
