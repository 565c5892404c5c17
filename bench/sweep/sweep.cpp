// More devices and micro-batches, as in Table 2 of the GPipe paper: how much do they gain, and slow links cost?

#include "../device_work.hpp"

#include <gpipe/core/descriptions/optimizer.hpp>
#include <gpipe/layer/linear/linear.hpp>
#include <gpipe/layer/loss/softmax_cross_entropy.hpp>
#include <gpipe/model/items.hpp>
#include <gpipe/plan/program/simulate.hpp>
#include <gpipe/train/trainer.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

namespace {

// 32 samples through 8 layers of 1 ms forward and 2 ms backward per sample: 768 ms on one device.
constexpr int layers = 8, samples = 32, width = 256;
using layer = bench::device_work<1000, 2000, 0>;

// The first linear layer makes a gradient flow back to the first device.
struct net : gpipe::model<gpipe::input<float, width>, gpipe::linear<width>, gpipe::repeat<layers, layer>,
                          gpipe::softmax_cross_entropy> {};

struct figure {
  double predicted_ms, step_ms;
};

/// `late` is a micro-batch's time on a link, relative to a stage's forward.
figure measure(int devices, int micro_batches, double late) {
  const std::vector<float> inputs(static_cast<std::size_t>(samples) * width, 1.0F);
  const std::vector<std::int32_t> labels(samples, 0);
  const auto batch = gpipe::batch(samples).with("inputs", inputs).with("labels", labels);
  const int size = samples / micro_batches, of_stage = layers / devices;
  const std::int64_t forward_ns = 1'000'000LL * size * of_stage, bytes = 4LL * width * size;
  const std::int64_t link_ns = std::llround(late * static_cast<double>(forward_ns));
  gpipe::training_options how;
  for (int s = 1; s < devices; ++s) how.cut.push_back(1 + s * of_stage);
  if (link_ns > 0) how.link_bytes_per_second = bytes * 1'000'000'000 / link_ns;
  gpipe::trainer<net, gpipe::sgd> training(gpipe::plan_options{.stages = devices,
                                                               .micro_batches = micro_batches,
                                                               .micro_batch_size = size,
                                                               .recompute = gpipe::recompute_mode::never,
                                                               .cost_transfers = link_ns > 0},
                                           {}, how);
  training.step(batch);
  std::vector<double> ms;
  for (int i = 0; i < 5; ++i) ms.push_back(1e3 * bench::timed([&] { training.step(batch); }));

  const std::vector<gpipe::stage_times> times(static_cast<std::size_t>(devices), {forward_ns, 2 * forward_ns, 0});
  const auto& links = training.plan().links;
  const std::vector<gpipe::link_times> transfers(links.size(), {link_ns, link_ns});
  const auto predicted = gpipe::simulate(gpipe::fill_drain{}, {.stages = devices,
                                                               .micro_batches = micro_batches,
                                                               .recompute = gpipe::recompute_mode::never,
                                                               .times = times.data(),
                                                               .links = links.data(),
                                                               .link_count = static_cast<int>(links.size()),
                                                               .transfers = transfers.data()});
  return {1e-6 * static_cast<double>(predicted), bench::median(ms)};
}

}  // namespace

int main() {
  bench::print_environment();
  double worst = 0, first = 0;
  std::vector<std::pair<std::string, double>> results;
  std::printf("32 samples, 8 layers, 768 ms on one device; fill-drain; median of 5 steps; gain is over K = 2, M = 1\n");
  std::printf(" link  K   M  predicted ms  step ms  ratio  gain\n");
  for (const auto& [link, late] : {std::pair{"free", 0.0}, {"half", 0.5}, {"slow", 2.0}})
    for (const int devices : {2, 4, 8})
      for (const int micro_batches : {1, 4, 32}) {
        const figure f = measure(devices, micro_batches, late);
        const double ratio = f.step_ms / f.predicted_ms;
        if (first == 0) first = f.step_ms;
        worst = std::max(worst, std::abs(ratio - 1));
        std::printf("%5s  %d  %2d  %12.1f  %7.1f  %5.3f  %4.2f\n", link, devices, micro_batches, f.predicted_ms,
                    f.step_ms, ratio, first / f.step_ms);
        results.emplace_back(std::string("sweep.") + link + "." + std::to_string(devices) + "x" +
                                 std::to_string(micro_batches),
                             ratio);
      }
  std::printf("\n");
  for (const auto& [name, ratio] : results) bench::result(name, ratio, "ratio");
  bench::result("sweep.worst", worst, "ratio");
}
