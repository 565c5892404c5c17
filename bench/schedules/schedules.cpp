// Eight emulated devices, every schedule: how close is a step to the simulator's makespan?

#include "../device_work.hpp"
#include "../schedule_key.hpp"

#include <gpipe/core/descriptions/optimizer.hpp>
#include <gpipe/layer/linear/linear.hpp>
#include <gpipe/layer/loss/softmax_cross_entropy.hpp>
#include <gpipe/make_plan.hpp>
#include <gpipe/model/structure/items.hpp>
#include <gpipe/plan/program/simulate.hpp>
#include <gpipe/tools/search/searched_schedule.hpp>
#include <gpipe/train/trainer.hpp>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <map>
#include <numeric>
#include <random>
#include <string>
#include <vector>

namespace {

constexpr int devices = 8;
constexpr double work_ms = 6;  // of a device, for each micro-batch

// A device has two of these layers: 2 ms forward, 2 + 2 ms backward. If it has two stages, each has one.
using half = bench::device_work<1000, 1000, 1000>;

// The first linear layer makes a gradient flow back to the first device.
struct net : gpipe::model<gpipe::input<float, 1>, gpipe::linear<4>, gpipe::repeat<2 * devices, half>,
                          gpipe::softmax_cross_entropy> {};

struct figure {
  double predicted_ms, step_ms;
  double predicted_idle, idle;  // shares of a device's step; the measured one by the times that its layers took
};

figure measure(gpipe::schedule_kind kind, int micro_batches, int steps) {
  const int chunks = gpipe::stages_per_worker(kind), stages = chunks * devices, layers = 2 / chunks;
  const auto count = static_cast<std::size_t>(micro_batches);
  const std::vector<float> inputs(count, 1.0F);
  const std::vector<std::int32_t> labels(count, 0);
  const auto batch = gpipe::batch(micro_batches).with("inputs", inputs).with("labels", labels);
  std::vector<int> cut;
  for (int s = 1; s < stages; ++s) cut.push_back(1 + s * layers);
  gpipe::training_options how{.cut = cut};
  gpipe::trainer<net, gpipe::sgd> training(gpipe::plan_options{.stages = stages,
                                                               .micro_batches = micro_batches,
                                                               .micro_batch_size = 1,
                                                               .recompute = gpipe::recompute_mode::never,
                                                               .schedule = kind},
                                           {}, how);
  training.step(batch);
  training.reset_report();
  std::vector<double> ms;
  for (int i = 0; i < steps; ++i) ms.push_back(1e3 * bench::timed([&] { training.step(batch); }));
  double busy_ms = 0;  // of all devices, in all steps
  for (const auto& s : training.report()) busy_ms += 1e-6 * static_cast<double>(s.busy());

  const std::vector<gpipe::stage_times> times(static_cast<std::size_t>(stages), {layers, layers, layers});
  const auto& links = training.plan().links;
  const auto predicted = gpipe::simulate(gpipe::schedule_choice(kind), {.stages = stages,
                                                                        .micro_batches = micro_batches,
                                                                        .recompute = gpipe::recompute_mode::never,
                                                                        .times = times.data(),
                                                                        .links = links.data(),
                                                                        .link_count = static_cast<int>(links.size())});
  const double all = std::accumulate(ms.begin(), ms.end(), 0.0);
  return {static_cast<double>(predicted), bench::median(ms),
          1 - micro_batches * work_ms / static_cast<double>(predicted), 1 - busy_ms / devices / all};
}

/// The tables that a search finds for equal stages of a V, at shares of 1F1B's activations: of these, half stay from
/// backward's input part to its parameter part.
void search_tables() {
  std::printf("\nsearched tables of a V, equal stages\n");
  std::printf("workers   M  activations  seconds  predicted idle  at most from the best\n");
  const auto search = [](int workers, int micro_batches, double share, double effort) {
    const std::vector<gpipe::searched_stage> stages(static_cast<std::size_t>(2 * workers), {1, 1, 1, 10, 6});
    const std::vector<std::int64_t> limits(static_cast<std::size_t>(workers),
                                           static_cast<std::int64_t>(share * 20 * workers));
    const gpipe::searched_pipeline of{workers,       micro_batches, gpipe::placement::v,
                                      stages.data(), nullptr,       limits.data()};
    double idle = 0, gap = 0;
    const double seconds = bench::timed([&] {
      const gpipe::searched_schedule found(of, effort);
      idle = 1 - 6.0 * micro_batches / static_cast<double>(found.makespan());
      gap = found.gap();
    });
    std::printf("%7d  %2d  %11.3f  %7.2f  %14.4f  %21.4f\n", workers, micro_batches, share, seconds, idle, gap);
    const std::string of_share = "." + std::to_string(workers) + "x" + std::to_string(micro_batches) + "." +
                                 std::to_string(static_cast<int>(1000 * share));
    bench::result("schedules.searched.idle" + of_share, idle, "share");
    bench::result("schedules.searched.gap" + of_share, gap, "share");
    bench::result("schedules.searched.seconds" + of_share, seconds, "s");
  };
  for (const double share : {1.0, 0.75, 0.625, 0.5}) search(8, 32, share, 1);
  for (const double share : {1.0, 0.75, 0.625}) search(16, 64, share, 4);
}

/// Random stages of a V or of one each, whose times and bytes are 1 to 1.5 times the smallest.
std::vector<gpipe::searched_stage> uneven_stages(int count, unsigned seed) {
  std::mt19937 random(seed);
  const auto uneven = [&random](int least) { return least + static_cast<int>(random() % unsigned(least / 2 + 1)); };
  std::vector<gpipe::searched_stage> stages;
  for (int s = 0; s < count; ++s) stages.push_back({uneven(100), uneven(100), uneven(100), 100, 60});
  return stages;
}

/// How much shorter than 1F1B and ZB-H1 is a table for one stage a worker, with the memory of 1F1B?
void search_uneven_stages() {
  constexpr int workers = devices, micro_batches = 32, draws = 11;
  const std::vector<std::int64_t> limits(workers, 100 * workers);
  std::vector<gpipe::stage_link> links;
  for (int s = 0; s + 1 < workers; ++s) links.push_back({s, s + 1});
  std::vector<double> gains, gaps;
  for (unsigned seed = 1; seed <= draws; ++seed) {
    const auto stages = uneven_stages(workers, seed);
    const gpipe::searched_schedule found(
        {workers, micro_batches, gpipe::placement::one_each, stages.data(), nullptr, limits.data()});
    std::vector<gpipe::stage_times> times;
    for (const auto& s : stages) times.push_back({s.forward, s.backward_input, s.backward_parameters});
    std::int64_t best = 0;
    for (const auto kind : {gpipe::schedule_kind::one_f_one_b, gpipe::schedule_kind::zb_h1}) {
      const std::int64_t known =
          gpipe::simulate(gpipe::schedule_choice(kind), {.stages = workers,
                                                         .micro_batches = micro_batches,
                                                         .recompute = gpipe::recompute_mode::never,
                                                         .times = times.data(),
                                                         .links = links.data(),
                                                         .link_count = workers - 1});
      best = best == 0 ? known : std::min(best, known);
    }
    gains.push_back(static_cast<double>(best) / static_cast<double>(found.makespan()) - 1);
    gaps.push_back(found.gap());
  }
  std::printf("one stage a worker, uneven, %d x %d: %.4f shorter than 1F1B and ZB-H1, at most %.4f from the best\n",
              workers, micro_batches, bench::median(gains), *std::max_element(gaps.begin(), gaps.end()));
  bench::result("schedules.searched.uneven", bench::median(gains), "share");
  bench::result("schedules.searched.uneven.gap", *std::max_element(gaps.begin(), gaps.end()), "share");
}

/// How far from the best may a V be whose stages differ, or whose links take a tenth of a forward?
void search_uneven_vs() {
  const auto search = [](const char* name, const std::vector<gpipe::searched_stage>& stages, std::int64_t latency,
                         double share) {
    const std::vector<gpipe::link_times> transfers(stages.size(), {latency, latency});
    const std::vector<std::int64_t> limits(devices, static_cast<std::int64_t>(share * 200 * devices));
    const gpipe::searched_schedule found(
        {devices, 32, gpipe::placement::v, stages.data(), transfers.data(), limits.data()});
    std::printf("V, 8 x 32, %s, activations %.3f: at most %.4f from the best\n", name, share, found.gap());
    bench::result(
        "schedules.searched.gap.8x32." + std::string(name) + "." + std::to_string(static_cast<int>(1000 * share)),
        found.gap(), "share");
  };
  const std::vector<gpipe::searched_stage> even(2 * devices, {100, 100, 100, 100, 60});
  for (const double share : {1.0, 0.75, 0.625, 0.5}) {
    search("uneven", uneven_stages(2 * devices, 1), 0, share);
    search("latency", even, 10, share);
  }
}

}  // namespace

int main() {
  bench::print_environment();
  std::map<std::pair<std::string, int>, figure> found;
  std::printf("%d devices, 2 ms forward, 2 + 2 ms backward; median of 9 steps\n", devices);
  std::printf("schedule         M  predicted ms  step ms  ratio  predicted idle   idle\n");
  for (const gpipe::schedule_kind kind : gpipe::schedule_kinds) {
    if (kind == gpipe::schedule_kind::forward_only) continue;
    for (const int micro_batches : {8, 16, 32}) {
      const figure f = found[{bench::key_of(kind), micro_batches}] = measure(kind, micro_batches, 9);
      std::printf("%-14s  %2d  %12.1f  %7.1f  %5.3f  %14.3f  %5.3f\n", gpipe::name_of(kind), micro_batches,
                  f.predicted_ms, f.step_ms, f.step_ms / f.predicted_ms, f.predicted_idle, f.idle);
    }
  }
  std::printf("\n");
  for (const auto& [of, f] : found)
    bench::result("schedules." + of.first + "." + std::to_string(of.second), f.step_ms / f.predicted_ms, "ratio");
  for (const char* key : {"v_half", "v_min", "zb_2p"})
    bench::result(std::string("schedules.") + key + ".idle", found[{key, 32}].idle, "share");
  for (const char* key : {"zb_h1", "zb_v"}) {
    const figure one = found[{"1f1b", 32}], zb = found[{key, 32}];
    bench::result(std::string("schedules.gain.") + key,
                  (one.step_ms / zb.step_ms) / (one.predicted_ms / zb.predicted_ms), "ratio");
  }
  search_tables();
  search_uneven_stages();
  search_uneven_vs();
}
