// One stage, and so no pipeline: how much does recompute cost, and how much memory does it save? All lines but the last
// of a table compute each micro-batch's parameter gradients alone; the last combines several, as is the default without
// recompute.
//
// Then, predicted alone: 24 Transformer blocks on 8 stages with a quarter of the activations, the slowest stage over
// that without recompute.
//
//     recompute [rounds]

#include "../networks.hpp"
#include "../recompute_limits.hpp"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include <gpipe/make_plan.hpp>
#include <gpipe/plan/summary.hpp>

namespace {

using namespace gpipe;
using bench::activations_of;

template <class Net>
struct way {
  std::string name;
  std::unique_ptr<trainer<Net, sgd>> training;
  std::vector<double> seconds{};
};

/// Steps of a model with nothing recomputed, with layers for a half and a quarter of the activations, and with whole
/// micro-batches.
/// Returns how much faster layers are than whole micro-batches, on average of the two limits.
template <class Net>
double compare(const std::string& model, int M, int B, int rounds) {
  const typename bench::workload<Net>::data made(M * B);
  const batch on = made.all();
  const auto options = [&](recompute_mode mode, std::int64_t bytes = no_memory_limit, int group_gradients = 1) {
    return plan_options{.micro_batches = M,
                        .micro_batch_size = B,
                        .recompute = mode,
                        .group_gradients = group_gradients,
                        .optimizer_moments = sgd::moments,
                        .keep_packed_weights = true,  // else fewer layers run again
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
  const double half = whole(0.5) / seconds(1), quarter = whole(0.25) / seconds(2);
  bench::result(of + ".half.over_as_needed", half, "ratio");
  bench::result(of + ".quarter.over_as_needed", quarter, "ratio");
  bench::result("recompute." + model + ".except_last", seconds(0) / seconds(3), "ratio");
  bench::result("recompute." + model + ".always", seconds(0) / seconds(4), "ratio");
  bench::result("recompute." + model + ".except_last.over_group_gradients", seconds(5) / seconds(3), "ratio");
  return std::sqrt(half * quarter);
}

/// Blocks whose norms, products and GELUs are layers of their own.
struct blocks : model<input<std::int32_t, 1024>, embedding<32'000, 2048>,
                      repeat<24, residual<layer_norm, causal_attention<32>>,
                             residual<layer_norm, linear<8192>, gelu, linear<2048>>>,
                      layer_norm, linear<32'000>, softmax_cross_entropy> {};

void predict_bottleneck(schedule_kind schedule) {
  const network& net = network_of<blocks>;
  plan_options o{.stages = 8,
                 .micro_batches = 32,
                 .micro_batch_size = 1,
                 .recompute = recompute_mode::never,
                 .schedule = schedule,
                 .group_gradients = 1};
  const step_plan never = make_plan(net, o);
  const auto over_never = [&](const step_plan& p) {
    return static_cast<double>(bench::bottleneck_of(net, p)) / static_cast<double>(bench::bottleneck_of(net, never));
  };
  o.recompute = recompute_mode::as_needed;
  o.memory_limit = bench::limit_for(never, 0.25);
  const step_plan quarter = make_plan(net, o);
  const double reached = over_never(quarter);
  std::printf("24 blocks on 8 stages, %s, a quarter of the activations: bottleneck %.3f, step %.3f over never\n",
              name_of(schedule), reached,
              static_cast<double>(step_time(net, quarter)) / static_cast<double>(step_time(net, never)));
  const std::string name = schedule == schedule_kind::fill_drain ? "fill_drain" : "1f1b";
  bench::result("recompute.layers.24x8.quarter.bottleneck." + name, reached, "ratio");
}

}  // namespace

int main(int count, char** arguments) {
  const int rounds = count > 1 ? std::atoi(arguments[1]) : 15;
  bench::print_environment();
  predict_bottleneck(schedule_kind::fill_drain);
  predict_bottleneck(schedule_kind::one_f_one_b);
  std::printf("\n");
  const double mlp = compare<bench::mlp>("mlp", 32, 32, rounds), tf = compare<bench::tf>("tf", 8, 4, rounds);
  bench::result("recompute.layers.over_as_needed", std::sqrt(mlp * tf), "ratio");
}
