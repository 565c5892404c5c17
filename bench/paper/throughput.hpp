#pragma once

// Table 2, the table for slow links, the components of a step, and the drawing of both ways to run.

#include "../emulation.hpp"
#include "page.hpp"

#include <gpipe/make_plan.hpp>
#include <gpipe/model/transformer.hpp>
#include <gpipe/model/vision/amoebanet.hpp>
#include <gpipe/plan/cost/layer_cost.hpp>
#include <gpipe/plan/cut/step_time.hpp>
#include <gpipe/tools/drawing/timeline.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace paper {

using bench::max_devices, bench::measured_on, bench::simulated, bench::timed_pipeline;

/// A network whose throughput the paper prints, over that of K = 2 and M = 1; 0: not printed.
struct printed_network {
  const char *name, *key;
  const gpipe::network* net;
  int batch;
  double gpipe[3][3];    ///< [K = 2, 4, 8][M = 1, 4, 32], table 2
  double slow[3];        ///< [K], M = 32, over K = 2: devices without fast links
  double torchgpipe[3];  ///< [K], M = 32
  double unit[2];        ///< an emulated step takes this part of the predicted time; with slow links
};

inline const std::vector<printed_network>& printed_networks() {
  static const std::vector<printed_network> all{{"AmoebaNet-D (18, 256)",
                                                 "amoebanet",
                                                 &gpipe::network_of<gpipe::amoebanet_d<18, 256>>,
                                                 128,
                                                 {{1, 1.07, 1.21}, {1.13, 1.26, 1.84}, {1.38, 1.72, 3.48}},
                                                 {1, 1.7, 2.7},
                                                 {1.773, 2.709, 4.953},
                                                 {1, 0.5}},
                                                {"Transformer-48",
                                                 "transformer",
                                                 &gpipe::network_of<gpipe::transformer<48>>,
                                                 32,
                                                 {{1, 1.7, 1.8}, {1.07, 3.2, 3.4}, {1.3, 4.8, 6.3}},
                                                 {1, 1.8, 3.3},
                                                 {},
                                                 {0.125, 0.02}}};
  return all;
}

inline constexpr int device_counts[] = {2, 4, 8}, micro_batch_counts[] = {1, 4, 32};

/// The best cut's times on a device, in nanoseconds. A value that skips a stage goes over the first link of its way.
inline timed_pipeline pipeline_of(const printed_network& of, const gpipe::device_spec& device, int devices,
                                  int micro_batches) {
  const int size = of.batch / micro_batches;
  const gpipe::step_plan plan = make_plan(*of.net, {.stages = devices,
                                                    .micro_batches = micro_batches,
                                                    .micro_batch_size = size,
                                                    .recompute = gpipe::recompute_mode::always,
                                                    .optimizer_moments = 1,
                                                    .device = device,
                                                    .cost_transfers = true});
  timed_pipeline made{micro_batches};
  made.links.resize(static_cast<std::size_t>(devices) - 1);
  for (int s = 0; s < devices; ++s) {
    const auto ps = gpipe::detail::times_of(plan.costs().of(s), plan.cut().first[s], plan.cut().first[s + 1], false);
    made.stages.push_back({ps.forward / 1000, ps.backward_input / 1000, 0});
  }
  for (const gpipe::stage_link& l : plan.links) {
    const gpipe::pass_cost ps =
        gpipe::detail::link_cost_of(gpipe::detail::traffic_of(*of.net, plan.cut(), l, size), device);
    gpipe::link_times& over = made.links[static_cast<std::size_t>(l.source)];
    over.forward += ps.forward / 1000;
    over.back += ps.backward / 1000;
  }
  return made;
}

inline timed_pipeline scaled(timed_pipeline p, double by) {
  const auto scale = [by](std::int64_t& time) { time = std::llround(by * static_cast<double>(time)); };
  for (gpipe::stage_times& s : p.stages) scale(s.forward), scale(s.backward_input);
  for (gpipe::link_times& l : p.links) scale(l.forward), scale(l.back);
  return p;
}

/// The lengths of a step when its causes of loss come one after the other.
struct breakdown {
  double ideal, imbalance, bubble, recompute, transfer;  ///< shares of the step
};
inline breakdown breakdown_of(timed_pipeline p) {
  const auto step = [](const timed_pipeline& of) { return static_cast<double>(simulated(of)); };
  const double all = step(p);
  for (gpipe::link_times& l : p.links) l = {};
  const double without_transfers = step(p);
  p.recompute = gpipe::recompute_mode::never;
  const double once = step(p);
  std::int64_t sum = 0, max = 0;
  for (const gpipe::stage_times& s : p.stages) {
    sum += s.forward + s.backward_input;
    max = std::max(max, s.forward + s.backward_input);
  }
  const double M = p.micro_batches, ideal = M * static_cast<double>(sum) / p.devices(),
               largest = M * static_cast<double>(max);
  return {ideal / all, (largest - ideal) / all, (once - largest) / all, (without_transfers - once) / all,
          (all - without_transfers) / all};
}

/// Predicts and measures all pipelines of a network. `worst` is the largest |measured / predicted - 1| so far.
inline void add_throughput(page& to, const printed_network& of, const gpipe::device_spec& device, bool slow, int steps,
                           double& worst) {
  std::vector<std::vector<std::string>> rows{{"K", "M", "predicted step", "measured / predicted", "predicted gain",
                                              "measured gain", slow ? "GPipe, over K = 2" : "GPipe"}};
  if (!slow) rows.front().emplace_back("torchgpipe");
  if (slow) rows.front().insert(rows.front().end() - 1, "measured, over K = 2");
  double first_predicted = 0, first_measured = 0;
  std::map<int, double> of_two;  // [M]
  for (int k = 0; k < 3; ++k)
    for (int m = 0; m < 3; ++m) {
      const int K = device_counts[k], M = micro_batch_counts[m];
      const timed_pipeline p = pipeline_of(of, device, K, M);
      const auto predicted = static_cast<double>(simulated(p));
      const timed_pipeline emulated = scaled(p, of.unit[slow]);
      const double took = measured_on(emulated, steps), ratio = took / static_cast<double>(simulated(emulated));
      worst = std::max(worst, std::abs(ratio - 1));
      if (k == 0 && m == 0) first_predicted = predicted, first_measured = took;
      if (k == 0) of_two[M] = took;
      std::vector<std::string> row{std::to_string(K),
                                   std::to_string(M),
                                   fixed(1e-6 * predicted, 0) + " ms",
                                   fixed(ratio, 3),
                                   fixed(first_predicted / predicted, 2),
                                   fixed(first_measured / took, 2)};
      const auto printed = [](double value) { return value > 0 ? fixed(value, 2) : std::string(); };
      if (slow) {
        row.push_back(fixed(of_two[M] / took, 2));
        row.push_back(m == 2 ? printed(of.slow[k]) : "");
      } else {
        row.push_back(printed(of.gpipe[k][m]));
        row.push_back(m == 2 ? printed(of.torchgpipe[k]) : "");
      }
      rows.push_back(std::move(row));
      std::printf("%s, K = %d, M = %d: measured over predicted %.3f\n", of.name, K, M, ratio);
    }
  to.table(rows);
}

inline void add_breakdowns(page& to, const gpipe::device_spec& device) {
  std::vector<std::vector<std::string>> rows{
      {"network", "K", "work", "imbalance", "bubble", "recompute", "transfers that nothing hides"}};
  for (const printed_network& of : printed_networks())
    for (const int K : device_counts) {
      const breakdown b = breakdown_of(pipeline_of(of, device, K, 32));
      rows.push_back({of.name, std::to_string(K), percent(b.ideal), percent(b.imbalance), percent(b.bubble),
                      percent(b.recompute), percent(b.transfer)});
    }
  to.table(rows);
}

/// Four equal stages, drawn as they run one after the other, and as a pipeline.
inline bool draw(const std::string& path, const char* title, int micro_batches) {
  timed_pipeline p{micro_batches, gpipe::recompute_mode::never};
  const std::int64_t forward = 24'000'000 / micro_batches;
  p.stages.assign(4, {forward, 2 * forward, 0});
  p.links.resize(3);
  std::vector<gpipe::trace_event> events;
  simulated(p, [&events](const gpipe::instruction& it, std::int64_t from, std::int64_t to) {
    if (to > from)
      events.push_back({from, to,
                        it.kind == gpipe::action_kind::backward_input ? gpipe::action_kind::backward : it.kind,
                        it.stage, it.micro_batch});
  });
  std::ofstream out(path);
  gpipe::write_timeline(out, events, {.title = title, .width = 1200});
  return static_cast<bool>(out.flush());
}

}  // namespace paper
