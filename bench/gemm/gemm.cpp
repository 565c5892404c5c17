// What share of the two cores' matrix-product rate does a training reach, and what takes the rest of a step?
//
//     gemm [rounds [folder [network ...]]]      writes a drawing of each into the folder, unless that is -

#include "../gemm_peak.hpp"
#include "../images.hpp"
#include "../two_trainings.hpp"

#include <gpipe/core/text/quantity.hpp>
#include <gpipe/record/file/write_file.hpp>
#include <gpipe/tools/drawing/canvas.hpp>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace {

using namespace gpipe;

constexpr int S = 2;

// Nanoseconds of both workers per step.
struct kinds {
  double forward = 0, input_gradient = 0, parameter_gradient = 0, attention = 0, activations = 0, normalization = 0,
         additions = 0, pooling = 0, loss = 0, transfer = 0, waiting = 0, update = 0, barrier = 0;
  double rest = 0;  // of forward and backward: between layers, and means minus medians

  std::vector<detail::bar_part> parts() const {
    const auto part = [](const char* name, double ns, const char* fill) {
      return detail::bar_part{name, static_cast<std::int64_t>(ns), action_kind::idle, fill};
    };
    const auto& hue = detail::hues;
    return {part("products", forward, hue[0].light),
            part("input gradient", input_gradient, hue[0].dark),
            part("parameters", parameter_gradient, hue[6].dark),
            part("attention", attention, hue[1].dark),
            part("activations", activations, hue[1].light),
            part("layer or batch norm", normalization, hue[2].light),
            part("additions", additions, hue[3].light),
            part("pooling", pooling, hue[2].dark),
            part("loss", loss, hue[5].light),
            part("rest of passes", rest, hue[5].dark),
            part("transfer", transfer, hue[3].dark),
            part("waiting", waiting, hue[4].light),
            part("update, packing", update, hue[7].dark),
            part("start, barrier", barrier, hue[4].dark)};
  }
};

/// For a training that timed its layers in the reported steps.
template <class Training>
kinds where(const Training& it, int micro_batches) {
  kinds sum;
  double layers = 0;
  for (const measured_layer& line : it.layer_profile().layers) {
    const double forward = micro_batches * static_cast<double>(line.forward_ns);
    const double input = micro_batches * static_cast<double>(line.backward_input_ns);
    const double parameters = micro_batches * static_cast<double>(line.backward_parameters_ns);
    layers += forward + input + parameters;
    const auto is = [&](const char* name) { return line.layer.starts_with(name); };
    if (is("linear") || is("feed_forward") || is("conv2d")) {
      sum.forward += forward, sum.input_gradient += input, sum.parameter_gradient += parameters;
    } else {
      (is("gelu") || is("relu")                      ? sum.activations
       : is("causal_attention")                      ? sum.attention
       : is("layer_norm") || is("batch_norm")        ? sum.normalization
       : is("add")                                   ? sum.additions
       : is("max_pool") || is("global_average_pool") ? sum.pooling
                                                     : sum.loss) += forward + input + parameters;
    }
  }
  for (const stage_report& s : it.report()) {
    const auto mean = [&](std::int64_t ns) { return static_cast<double>(ns) / s.steps; };
    const double passes = mean(s.busy(action_kind::forward) + s.busy(action_kind::backward) +
                               s.busy(action_kind::backward_input) + s.busy(action_kind::backward_parameters));
    const double update = mean(s.busy(action_kind::update) + s.busy(action_kind::reduce));
    sum.rest += passes;
    sum.update += update;
    sum.transfer += mean(s.busy()) - passes - update;
    sum.waiting += mean(s.wait_ns);
    sum.barrier += mean(s.step_ns - s.busy() - s.wait_ns);
  }
  sum.rest = std::max(0.0, sum.rest - layers);
  return sum;
}

struct drawing {
  std::string name, title;
  std::vector<detail::bar_part> parts;
};

/// The share of the better schedule.
template <class Net>
double measure(const std::string& name, int micro_batches, int micro_batch_size, int rounds, int steps,
               const bench::gemm_peak& peak, std::vector<drawing>& drawings) {
  const int samples = micro_batches * micro_batch_size;
  const typename bench::workload<Net>::data made(samples);
  const batch on = made.all();
  const double work = 1e-9 * bench::workload<Net>::operations() * samples;
  std::vector<std::vector<std::string>> rows{{"", "fill-drain", "", "1F1B", ""}};
  measured_profile costs;
  if constexpr (std::is_same_v<typename bench::workload<Net>::data, bench::random_pixels>) {  // cut by seconds
    const plan_options one_stage{.stages = 1,
                                 .micro_batches = micro_batches,
                                 .micro_batch_size = micro_batch_size,
                                 .recompute = recompute_mode::never};
    costs = trainer<Net, sgd>(one_stage, sgd{}).profile_layers(on);
  }
  double best = 0;
  for (const schedule_kind schedule : {schedule_kind::fill_drain, schedule_kind::one_f_one_b}) {
    plan_options options{.stages = S,
                         .micro_batches = micro_batches,
                         .micro_batch_size = micro_batch_size,
                         .recompute = recompute_mode::never,
                         .schedule = schedule};
    if (!costs.layers.empty()) options.profile = costs.view();
    trainer<Net, sgd> training(options, sgd{.learning_rate = 1e-3});
    bench::run(training, on, 2);
    std::vector<double> rates, peaks, shares;
    double before = peak();
    for (int round = 0; round < rounds; ++round) {
      rates.push_back(steps * work / bench::timed([&] { bench::run(training, on, steps); }));
      const double after = peak();
      peaks.push_back((before + after) / 2);
      shares.push_back(rates.back() / peaks.back());
      before = after;
    }
    std::printf("%s, %s: %.1f of %.1f GFLOP/s, share %.3f (10 %% %.3f, 90 %% %.3f); 1024 x 1024 x 1024: %.1f GFLOP/s\n",
                name.c_str(), gpipe::name_of(schedule), bench::median(rates), bench::median(peaks),
                bench::median(shares), bench::quantile(shares, 0.1), bench::quantile(shares, 0.9),
                peak.at({1024, 1024, 1024}));
    best = std::max(best, bench::median(shares));

    training_options timed;
    timed.layer_times = true;
    trainer<Net, sgd> watched(options, sgd{.learning_rate = 1e-3}, timed);
    bench::run(watched, on, 2);
    watched.reset_report();
    bench::run(watched, on, rounds * steps);
    const auto parts = where(watched, micro_batches).parts();
    double whole = 0;
    for (const auto& part : parts) whole += static_cast<double>(part.ns);
    for (std::size_t i = 0; i < parts.size(); ++i) {
      if (rows.size() <= i + 1) rows.push_back({parts[i].name});
      rows[i + 1].push_back(detail::fixed(1e-6 * static_cast<double>(parts[i].ns) / S, 3) + " ms");
      rows[i + 1].push_back(detail::percent(static_cast<double>(parts[i].ns), whole));
    }
    drawings.push_back({name + "." + gpipe::name_of(schedule),
                        name + ", " + gpipe::name_of(schedule) + ": the time of a step", parts});
  }
  std::printf("\na step's time, mean of two workers\n%s\n", detail::table(rows).c_str());
  return best;
}

}  // namespace

int main(int count, char** arguments) {
  const int rounds = count > 1 ? std::atoi(arguments[1]) : 15;
  bench::print_environment();
  const bench::gemm_peak peak(S);
  std::printf("peak: products of %d x %d x %d on %d pinned threads, before and after each round\n\n", peak.best().rows,
              peak.best().columns, peak.best().inner, S);
  std::vector<drawing> drawings;
  const auto take = [&]<class Net>(const char* name, int micro_batches, int micro_batch_size, int steps) {
    if (count > 3 && std::find(arguments + 3, arguments + count, std::string(name)) == arguments + count) return;
    const double share = measure<Net>(name, micro_batches, micro_batch_size, rounds, steps, peak, drawings);
    bench::result(std::string("gemm.") + name + ".share", share, "ratio");
  };
  take.operator()<bench::mlp>("mlp", 32, 32, 2);
  take.operator()<bench::mlps>("mlps", 32, 4, 60);
  take.operator()<bench::tf>("tf", 8, 4, 1);
  take.operator()<bench::tfs>("tfs", 32, 2, 2);
  take.operator()<bench::resnet26>("resnet", 8, 8, 1);
  if (count > 2 && arguments[2] != std::string("-"))
    for (const drawing& p : drawings)
      write_file(std::string(arguments[2]) + "/" + p.name + ".svg", [&](std::ostream& out) {
        detail::write_stacked_bar(out, p.parts, p.title, "a step of two workers", 900);
      });
}
