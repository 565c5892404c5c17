// Eight emulated devices, every schedule: how close is a step to the simulator's makespan?

#include "../device_work.hpp"

#include <gpipe/core/descriptions/optimizer.hpp>
#include <gpipe/layer/linear/linear.hpp>
#include <gpipe/layer/loss/softmax_cross_entropy.hpp>
#include <gpipe/model/structure/items.hpp>
#include <gpipe/plan/make_plan.hpp>
#include <gpipe/plan/program/simulate.hpp>
#include <gpipe/plan/search/searched_schedule.hpp>
#include <gpipe/train/trainer.hpp>

#include <cctype>
#include <cstdint>
#include <cstdio>
#include <map>
#include <numeric>
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

/// As in results: fill_drain, 1f1b, zb_h1.
std::string key_of(gpipe::schedule_kind kind) {
  std::string key = gpipe::name_of(kind);
  for (char& c : key) c = c == '-' ? '_' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return key;
}

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

}  // namespace

int main() {
  bench::print_environment();
  std::map<std::pair<std::string, int>, figure> found;
  std::printf("%d devices, 2 ms forward, 2 + 2 ms backward; median of 9 steps\n", devices);
  std::printf("schedule         M  predicted ms  step ms  ratio  predicted idle   idle\n");
  for (const gpipe::schedule_kind kind : gpipe::schedule_kinds) {
    if (kind == gpipe::schedule_kind::forward_only) continue;
    for (const int micro_batches : {8, 16, 32}) {
      const figure f = found[{key_of(kind), micro_batches}] = measure(kind, micro_batches, 9);
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
}
