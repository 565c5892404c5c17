// One stage, and so no pipeline: how much does recompute cost, and how much memory does it save? All lines but the last
// compute each micro-batch's parameter gradients alone; the last combines several, as is the default without recompute.
//
//     recompute [rounds]

#include "../networks.hpp"

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include <gpipe/plan/make_plan.hpp>

namespace {

using namespace gpipe;

constexpr int M = 32, B = 32;

struct way {
  recompute_mode mode;
  std::string name;
  std::unique_ptr<trainer<bench::mlp, sgd>> training;
  std::vector<double> seconds{};

  std::int64_t activations() const {
    const stage_memory& m = training->plan().memory(0);
    return m.of(memory_kind::kept) + m.of(memory_kind::transient) + m.of(memory_kind::held);
  }
};

}  // namespace

int main(int count, char** arguments) {
  const int rounds = count > 1 ? std::atoi(arguments[1]) : 15;
  bench::print_environment();
  const bench::random_images made(M * B);
  const batch on = made.all();
  const auto options = [](recompute_mode mode, std::int64_t bytes = no_memory_limit, int group_gradients = 1) {
    return plan_options{.micro_batches = M,
                        .micro_batch_size = B,
                        .recompute = mode,
                        .group_gradients = group_gradients,
                        .optimizer_moments = sgd::moments,
                        .memory_limit = bytes};
  };
  // Half of the memory that `never` needs more than every mode.
  const auto memory_of = [&](recompute_mode mode) {
    return make_plan(network_of<bench::mlp>, options(mode)).memory(0);
  };
  const stage_memory all = memory_of(recompute_mode::never);
  const std::int64_t limit = all.total() - (all.of(memory_kind::kept) + all.of(memory_kind::transient)) / 2;

  std::vector<way> ways;
  const auto add = [&](recompute_mode mode, const char* name, std::int64_t bytes = no_memory_limit,
                       int group_gradients = 1) {
    ways.push_back({mode, name, std::make_unique<trainer<bench::mlp, sgd>>(options(mode, bytes, group_gradients))});
  };
  add(recompute_mode::never, "never");
  add(recompute_mode::as_needed, "as_needed", limit);
  add(recompute_mode::except_last, "except_last");
  add(recompute_mode::always, "always");
  add(recompute_mode::never, "never, together", no_memory_limit, 0);
  std::printf("mlp, one stage, %d micro-batches of %d; median of %d rounds\n", M, B, rounds);
  std::printf("recompute        activations MiB  step ms  throughput over never\n");
  for (way& w : ways) w.training->step(on);
  for (int round = 0; round < rounds; ++round)
    for (way& w : ways) w.seconds.push_back(bench::timed([&] { w.training->step(on); }));
  const double never = bench::median(ways[0].seconds);
  for (const way& w : ways)
    std::printf("%-15s  %15.1f  %7.1f  %21.3f\n", w.name.c_str(), static_cast<double>(w.activations()) / (1 << 20),
                1e3 * bench::median(w.seconds), never / bench::median(w.seconds));
  std::printf("\n");
  const double together = bench::median(ways.back().seconds);
  for (const way& w : ways) {
    if (w.mode == recompute_mode::never) continue;
    bench::result("recompute." + w.name, never / bench::median(w.seconds), "ratio");
    bench::result("recompute." + w.name + ".over_group_gradients", together / bench::median(w.seconds), "ratio");
  }
}
