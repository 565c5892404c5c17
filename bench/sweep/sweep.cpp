// More devices and micro-batches, as in Table 2 of the GPipe paper: how much do they gain, and slow links cost? And
// what does the plan predict for the paper's two networks on its devices?

#include "../device_work.hpp"

#include <gpipe/core/descriptions/optimizer.hpp>
#include <gpipe/layer/linear/linear.hpp>
#include <gpipe/layer/loss/softmax_cross_entropy.hpp>
#include <gpipe/make_plan.hpp>
#include <gpipe/model/structure/items.hpp>
#include <gpipe/model/transformer.hpp>
#include <gpipe/model/vision/amoebanet.hpp>
#include <gpipe/plan/cut/step_time.hpp>
#include <gpipe/plan/program/simulate.hpp>
#include <gpipe/tools/testing/emulated_link.hpp>
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
  std::vector<int> cut;
  for (int s = 1; s < devices; ++s) cut.push_back(1 + s * of_stage);
  gpipe::training_options how{.cut = cut};
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

/// A network of the paper's table 2, and what others measured: throughput over that of K = 2 and M = 1.
struct paper_network {
  const char* name;
  const gpipe::network* net;
  int batch;
  double paper[3][3];    // [K = 2, 4, 8][M = 1, 4, 32]
  double torchgpipe[3];  // [K], M = 32; 0: not measured
};

constexpr int device_counts[] = {2, 4, 8}, micro_batch_counts[] = {1, 4, 32};

/// The predicted seconds of a step with recompute always. Each value that crosses a cut takes its time on a link.
double predicted_step(const paper_network& of, int devices, int micro_batches) {
  const gpipe::step_plan p = make_plan(*of.net, {.stages = devices,
                                                 .micro_batches = micro_batches,
                                                 .micro_batch_size = of.batch / micro_batches,
                                                 .recompute = gpipe::recompute_mode::always,
                                                 .optimizer_moments = 1,
                                                 .device = gpipe::tpu_v3_core,
                                                 .cost_transfers = true});
  return 1e-12 * static_cast<double>(gpipe::detail::makespan_of(
                     *of.net, p.options, p.options.chosen_schedule(), p.costs(), p.cut(), p.links.data(),
                     static_cast<int>(p.links.size()), [](int) { return 1; }));
}

/// K stages of equal time, M micro-batches: one that recomputes before its gradient arrives, in the same unit as below.
double ideal_step(int devices, int micro_batches) {
  return (4.0 * micro_batches + 3 * (devices - 1)) / (micro_batches * devices);
}

void predict(const paper_network& of, std::vector<std::pair<std::string, double>>& results) {
  std::printf(
      "\n%s, a batch of %d, on K cores of a TPU v3, recompute always: throughput over that of K = 2 and M = 1\n",
      of.name, of.batch);
  std::printf(" K   M  step ms  predicted  equal stages  paper  torchgpipe\n");
  const double first = predicted_step(of, 2, 1);
  for (int k = 0; k < 3; ++k)
    for (int m = 0; m < 3; ++m) {
      const int K = device_counts[k], M = micro_batch_counts[m];
      const double step = predicted_step(of, K, M), gain = first / step;
      std::printf("%2d  %2d  %7.0f  %9.2f  %12.2f  %5.2f", K, M, 1e3 * step, gain, ideal_step(2, 1) / ideal_step(K, M),
                  of.paper[k][m]);
      if (m == 2 && of.torchgpipe[k] > 0) std::printf("  %10.2f", of.torchgpipe[k]);
      std::printf("\n");
      results.emplace_back(
          std::string("sweep.predicted.") + of.name + "." + std::to_string(K) + "x" + std::to_string(M), gain);
    }
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
        results.emplace_back(
            std::string("sweep.") + link + "." + std::to_string(devices) + "x" + std::to_string(micro_batches), ratio);
      }
  predict({"amoebanet",
           &gpipe::network_of<gpipe::amoebanet_d<18, 256>>,
           128,
           {{1, 1.07, 1.21}, {1.13, 1.26, 1.84}, {1.38, 1.72, 3.48}},
           {1.773, 2.709, 4.953}},
          results);
  predict({"transformer",
           &gpipe::network_of<gpipe::transformer<48>>,
           32,
           {{1, 1.7, 1.8}, {1.07, 3.2, 3.4}, {1.3, 4.8, 6.3}},
           {}},
          results);
  std::printf("\n");
  for (const auto& [name, ratio] : results) bench::result(name, ratio, "ratio");
  bench::result("sweep.worst", worst, "ratio");
}
