#pragma once

// Is the step of the plan that `find_best` chooses as long as predicted? Measured on emulated devices.

#include "../device_work.hpp"
#include "../measure.hpp"

#include <gpipe/core/descriptions/optimizer.hpp>
#include <gpipe/layer/linear/linear.hpp>
#include <gpipe/layer/loss/softmax_cross_entropy.hpp>
#include <gpipe/make_plan.hpp>
#include <gpipe/model/structure/items.hpp>
#include <gpipe/tools/best/find_best.hpp>
#include <gpipe/train/trainer.hpp>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

namespace bench {

// A sample is in a layer for as many microseconds forward, and for either part backward. On `this_cpu`, whose rates
// their costs are for, the layers are predicted to take just that.
struct even_layers : gpipe::model<gpipe::input<float, 1>, gpipe::linear<4>,
                                  gpipe::repeat<16, device_work<2000, 2000, 2000>>, gpipe::softmax_cross_entropy> {};
struct uneven_layers : gpipe::model<gpipe::input<float, 1>, gpipe::linear<4>,
                                    gpipe::repeat<4, device_work<1200, 1500, 900>, device_work<2700, 3000, 2400>,
                                                  device_work<1800, 1500, 2100>, device_work<3600, 2700, 3300>>,
                                    gpipe::softmax_cross_entropy> {};

/// The median of some steps of the best plan over its prediction.
template <class Net>
double measured_over_predicted(const char* name, const gpipe::plan_space& space, int steps) {
  const gpipe::best_plan best = gpipe::find_best(gpipe::network_of<Net>, space, {.optimizer_moments = 0});
  const auto count = static_cast<std::size_t>(space.batch);
  const std::vector<float> inputs(count, 1.0F);
  const std::vector<std::int32_t> labels(count, 0);
  const auto batch = gpipe::batch(space.batch).with("inputs", inputs).with("labels", labels);
  gpipe::training_options how{.cut = best.cut};
  gpipe::trainer<Net, gpipe::sgd> training(best.options, {}, how);
  training.step(batch);
  std::vector<double> seconds;
  for (int i = 0; i < steps; ++i) seconds.push_back(timed([&] { training.step(batch); }));
  const double predicted = 1e-12 * static_cast<double>(best.step), ratio = median(seconds) / predicted;
  const gpipe::plan_candidate& it = best.winner;
  std::printf("%-8s %d devices: %d x %d %-14s %3d x %-2d predicted %6.1f ms, measured %6.1f, %.3f (fastest %.3f)\n",
              name, space.devices, it.replicas, it.workers, gpipe::name_of(it.schedule), it.micro_batches,
              it.micro_batch_size, 1e3 * predicted, 1e3 * median(seconds), ratio, quantile(seconds, 0) / predicted);
  std::fflush(stdout);
  return ratio;
}

/// Pipelines on 2, 4 and 8 devices, and the best of all plans for 8, which has replicas. Returns the ratio that is
/// farthest from 1.
inline double worst_prediction(int steps) {
  double worst = 1;
  const auto take = [&worst](double ratio) {
    if (std::abs(ratio - 1) > std::abs(worst - 1)) worst = ratio;
  };
  for (const int devices : {2, 4, 8}) {
    const gpipe::plan_space pipeline{.devices = devices, .batch = 32, .replicas = 1, .workers = devices};
    take(measured_over_predicted<even_layers>("even", pipeline, steps));
    take(measured_over_predicted<uneven_layers>("uneven", pipeline, steps));
    gpipe::plan_space usual = pipeline;
    usual.schedule = gpipe::schedule_kind::one_f_one_b;
    take(measured_over_predicted<uneven_layers>("uneven", usual, steps));
  }
  take(measured_over_predicted<uneven_layers>("uneven", {.devices = 8, .batch = 32}, steps));
  return worst;
}

}  // namespace bench
