// One stage, and so no pipeline: how much does recompute cost, and how much memory does it save? All lines but the last
// of a table compute each micro-batch's parameter gradients alone; the last combines several, as is the default without
// recompute.
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

std::int64_t activations_of(const stage_memory& m) {
  return m.of(memory_kind::kept) + m.of(memory_kind::transient) + m.of(memory_kind::held);
}

template <class Net>
struct way {
  std::string name;
  std::unique_ptr<trainer<Net, sgd>> training;
  std::vector<double> seconds{};
};

/// Steps of a model with nothing recomputed, with layers for a half and a quarter of the activations, and with whole
/// micro-batches.
template <class Net>
void compare(const std::string& model, int M, int B, int rounds) {
  const typename bench::workload<Net>::data made(M * B);
  const batch on = made.all();
  const auto options = [&](recompute_mode mode, std::int64_t bytes = no_memory_limit, int group_gradients = 1) {
    return plan_options{.micro_batches = M,
                        .micro_batch_size = B,
                        .recompute = mode,
                        .group_gradients = group_gradients,
                        .optimizer_moments = sgd::moments,
                        .memory_limit = bytes};
  };
  const stage_memory all = make_plan(network_of<Net>, options(recompute_mode::never)).memory(0);
  const auto limit = [&](double share) {
    return all.total() - static_cast<std::int64_t>((1 - share) * static_cast<double>(activations_of(all)));
  };
  std::vector<way<Net>> ways;
  const auto add = [&](const char* name, const plan_options& o) {
    ways.push_back({name, std::make_unique<trainer<Net, sgd>>(o)});
  };
  add("never", options(recompute_mode::never));
  add("half", options(recompute_mode::as_needed, limit(0.5)));
  add("quarter", options(recompute_mode::as_needed, limit(0.25)));
  add("except_last", options(recompute_mode::except_last));
  add("always", options(recompute_mode::always));
  add("never, together", options(recompute_mode::never, no_memory_limit, 0));
  std::printf("%s, one stage, %d micro-batches of %d; median of %d rounds\n", model.c_str(), M, B, rounds);
  std::printf("recompute        activations MiB  step ms  throughput over never\n");
  for (auto& w : ways) w.training->step(on);
  for (int round = 0; round < rounds; ++round)
    for (auto& w : ways) w.seconds.push_back(bench::timed([&] { w.training->step(on); }));
  const auto seconds = [&](std::size_t i) { return bench::median(ways[i].seconds); };
  for (std::size_t i = 0; i < ways.size(); ++i)
    std::printf("%-15s  %15.1f  %7.1f  %21.3f\n", ways[i].name.c_str(),
                static_cast<double>(activations_of(ways[i].training->plan().memory(0))) / (1 << 20), 1e3 * seconds(i),
                seconds(0) / seconds(i));
  std::printf("\n");
  // Whole micro-batches in the same memory: as many working sets as fit, and the others run again.
  const auto whole = [&](double share) {
    const std::int64_t above = all.total() - limit(share), sets = M - (above + all.kept_set - 1) / all.kept_set;
    return seconds(0) + static_cast<double>(M - sets) / M * (seconds(4) - seconds(0));
  };
  const std::string of = "recompute.layers." + model;
  bench::result(of + ".half", seconds(0) / seconds(1), "ratio");
  bench::result(of + ".quarter", seconds(0) / seconds(2), "ratio");
  bench::result(of + ".half.over_as_needed", whole(0.5) / seconds(1), "ratio");
  bench::result(of + ".quarter.over_as_needed", whole(0.25) / seconds(2), "ratio");
  bench::result("recompute." + model + ".except_last", seconds(0) / seconds(3), "ratio");
  bench::result("recompute." + model + ".always", seconds(0) / seconds(4), "ratio");
  bench::result("recompute." + model + ".except_last.over_group_gradients", seconds(5) / seconds(3), "ratio");
}

}  // namespace

int main(int count, char** arguments) {
  const int rounds = count > 1 ? std::atoi(arguments[1]) : 15;
  bench::print_environment();
  compare<bench::mlp>("mlp", 32, 32, rounds);
  compare<bench::tf>("tf", 8, 4, rounds);
}
