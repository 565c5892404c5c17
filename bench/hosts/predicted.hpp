#pragma once

#include "../device_work.hpp"

#include <gpipe/core/descriptions/optimizer.hpp>
#include <gpipe/layer/linear/linear.hpp>
#include <gpipe/layer/loss/softmax_cross_entropy.hpp>
#include <gpipe/model/structure/items.hpp>
#include <gpipe/mpi.hpp>
#include <gpipe/plan/cost/link_cost.hpp>
#include <gpipe/plan/make_plan.hpp>
#include <gpipe/plan/program/simulate.hpp>
#include <gpipe/train/trainer.hpp>

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <sys/prctl.h>
#include <unistd.h>

// Two hosts with one emulated device each, and a real cable: is a step as long as predicted, and what does a cut gain
// that counts transfers?

namespace bench {

// The layers ----------------------------------------------------------------------------------------------------------

inline double layer_ms = 2;
inline int samples_of_a_micro_batch = 1;

/// It takes `layer_ms` for a micro-batch forward, and for either part backward, and leaves the core free meanwhile.
struct timed_work {
  template <class In>
  struct on {
    using output = In;
    static constexpr gpipe::parameter parameters[] = {{"none", {1}, gpipe::initializer::zeros()}};
    static constexpr gpipe::work cost{.forward = 1, .backward_input = 1, .backward_parameters = 1};  // see profile_of
    static void work(int count) { busy_for(1e-3 * layer_ms * count / samples_of_a_micro_batch); }
    static void forward(const auto&, const auto& a) { work(a.samples()); }
    static void backward_input(const auto&, const auto& a) { work(a.samples()); }
    static void backward_parameters(const auto&, const auto& a) { work(a.samples()); }
  };
};

/// The costs of a micro-batch: only these layers take time.
inline std::vector<gpipe::measured_layer> profile_of(const gpipe::network& net) {
  std::vector<gpipe::measured_layer> lines;
  const auto ns = static_cast<std::int64_t>(1e6 * layer_ms);
  for (int l = 0; l < net.layer_count; ++l) {
    const std::string_view name = net.type_of(l).name;
    const std::int64_t takes = name.find("timed_work") == name.npos ? 0 : ns;
    lines.push_back({l, name, takes, takes, takes});
  }
  return lines;
}

// A device has two layers: 4 ms forward, 4 + 4 ms backward. If it has two stages, each has one. The first linear layer
// makes a gradient flow back to the first device.
inline constexpr int edge_width = 256;
struct two_devices : gpipe::model<gpipe::input<float, 1>, gpipe::linear<edge_width>, gpipe::repeat<4, timed_work>,
                                  gpipe::linear<4>, gpipe::softmax_cross_entropy> {};
// The cut that halves the time crosses a wide edge; behind the next layer is a narrow one.
struct one_narrow_edge : gpipe::model<gpipe::input<float, 1>, gpipe::linear<edge_width>, gpipe::repeat<9, timed_work>,
                                      gpipe::linear<4>, gpipe::linear<edge_width>, gpipe::repeat<7, timed_work>,
                                      gpipe::linear<4>, gpipe::softmax_cross_entropy> {};

// The link ------------------------------------------------------------------------------------------------------------

/// Other programs make any measure longer, never shorter: the tenth part of all is that of an idle machine.
inline double fastest(const std::vector<double>& values) { return quantile(values, 0.1); }

/// The times of messages to the other process, in seconds: half of a ping-pong each. Both processes sleep before it, as
/// in a step, where layers run in between.
inline std::vector<double> seconds_one_way(int rank, int bytes, int times) {
  std::vector<char> text(static_cast<std::size_t>(bytes) + 1);
  std::vector<double> seconds;
  for (int i = -20; i < times; ++i) {  // the first ones open the connection's window
    usleep(rank == 0 ? 2000 : 1000);
    const double taken = timed([&] {
      for (const bool sends : {rank == 0, rank != 0}) {
        MPI_Request request = MPI_REQUEST_NULL;
        if (sends) MPI_Isend(text.data(), bytes, MPI_BYTE, 1 - rank, 0, MPI_COMM_WORLD, &request);
        else MPI_Irecv(text.data(), bytes, MPI_BYTE, 1 - rank, 0, MPI_COMM_WORLD, &request);
        for (int done = 0; MPI_Test(&request, &done, MPI_STATUS_IGNORE), !done;) usleep(20);
      }
    });
    if (i >= 0) seconds.push_back(taken / 2);
  }
  return seconds;
}

/// This CPU with the link that MPI has, measured with messages that it sends at once. The latency is a median: beside
/// other programs a process wakes late for its messages, here as in a step. Rank 0's measure counts.
inline gpipe::device_spec measure_link(int rank) {
  prctl(PR_SET_TIMERSLACK, 1UL);
  constexpr int bytes = 60'000;  // Open MPI's limit for TCP is 65,536 with a header
  const std::vector<double> empty = seconds_one_way(rank, 0, 100), full = seconds_one_way(rank, bytes, 30);
  double times[] = {median(empty), *std::min_element(empty.begin(), empty.end()),
                    *std::min_element(full.begin(), full.end())};
  MPI_Bcast(times, 3, MPI_DOUBLE, 0, MPI_COMM_WORLD);
  gpipe::device_spec on = gpipe::this_cpu;
  on.link_latency_ns = static_cast<std::int64_t>(1e9 * times[0]);
  on.link_bytes_per_second = static_cast<std::int64_t>(bytes / std::max(1e-9, times[2] - times[1]));
  if (rank == 0)
    std::printf("a message takes %.3f ms, at least %.3f, and the link carries %.1f MB/s\n", 1e3 * times[0],
                1e3 * times[1], 1e-6 * static_cast<double>(on.link_bytes_per_second));
  return on;
}

// A step --------------------------------------------------------------------------------------------------------------

/// A step by rank 0's clock, and the mean times of each stage's micro-batches in it: beside other programs the emulated
/// devices are late.
struct measured_step {
  double ms = 0;
  std::vector<gpipe::stage_times> stages{};  // ns
};

template <class Net>
std::vector<measured_step> measured_steps(gpipe::process_group& job, const gpipe::plan_options& options,
                                          const std::vector<int>& cut, int steps) {
  gpipe::training_options how{.cut = cut};
  how.job = &job;
  gpipe::trainer<Net, gpipe::sgd> training(options, {}, how);
  const int size = options.micro_batches * options.micro_batch_size;
  const std::vector<float> ones(static_cast<std::size_t>(size), 1.0F);
  const std::vector<std::int32_t> labels(static_cast<std::size_t>(size), 0);
  const auto batch = gpipe::batch(size).with("inputs", ones).with("labels", labels);
  std::vector<measured_step> all;
  for (int i = -2; i < steps; ++i) {
    training.reset_report();
    measured_step one{.ms = 1e3 * timed([&] { training.step(batch); })};
    for (const gpipe::stage_report& s : training.report()) {
      using enum gpipe::action_kind;
      const bool here = s.worker == job.rank();
      std::int64_t ns[] = {s.busy(forward), s.busy(backward_input), s.busy(backward_parameters), s.busy(backward)};
      for (std::int64_t& it : ns) it = here ? it / options.micro_batches : 0;
      MPI_Allreduce(MPI_IN_PLACE, ns, 4, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
      one.stages.push_back({ns[0], ns[1] + ns[3] / 2, ns[2] + ns[3] / 2});  // a whole one has parts of equal times
    }
    if (i >= 0) all.push_back(std::move(one));
  }
  return all;
}

/// As in results: fill_drain, 1f1b, zb_h1.
inline std::string key_of(gpipe::schedule_kind kind) {
  std::string key = gpipe::name_of(kind);
  for (char& c : key) c = c == '-' ? '_' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return key;
}

/// The options of two hosts, whose plan knows the times of all layers and of the link.
struct two_hosts {
  std::vector<gpipe::measured_layer> profile;
  gpipe::plan_options options;

  two_hosts(const gpipe::network& net, gpipe::schedule_kind kind, const gpipe::device_spec& on)
      : profile(profile_of(net)),
        options{.stages = 2 * gpipe::stages_per_worker(kind),
                .micro_batches = 16,
                .micro_batch_size = samples_of_a_micro_batch,
                .recompute = gpipe::recompute_mode::never,
                .schedule = kind,
                .device = on,
                .profile = {profile.data(), static_cast<int>(profile.size()), samples_of_a_micro_batch},
                .cost_transfers = true} {}
};
/// By simulation of the cut's programs. The plan's own prediction of a cut, by `makespan_of`, is longer for a schedule
/// whose table has whole backwards: it lets a gradient leave behind the parameter part, and not before.
class prediction {
 public:
  prediction(const gpipe::network& net, const two_hosts& on, const std::vector<int>& cut)
      : plan_(gpipe::make_plan(net, on.options, cut)) {
    for (const gpipe::stage_link& l : plan_.links) {
      const auto bytes = gpipe::detail::traffic_of(net, plan_.cut(), l, plan_.options.micro_batch_size);
      const gpipe::pass_cost ps = gpipe::detail::link_cost_of(bytes, plan_.options.device);
      transfers_.push_back({ps.forward / 1000, ps.backward / 1000});
    }
  }
  /// With these times of the stages.
  double ms(const std::vector<gpipe::stage_times>& ns) const {
    return 1e-6 * static_cast<double>(gpipe::simulate(plan_.options.chosen_schedule(),
                                                      {.stages = plan_.stages(),
                                                       .micro_batches = plan_.micro_batches(),
                                                       .recompute = gpipe::recompute_mode::never,
                                                       .times = ns.data(),
                                                       .links = plan_.links.data(),
                                                       .link_count = static_cast<int>(plan_.links.size()),
                                                       .transfers = transfers_.data()}));
  }
  /// With the times that its layers should take.
  double ms() const {
    std::vector<gpipe::stage_times> ns;
    for (int s = 0; s < plan_.stages(); ++s) {
      const gpipe::stage_times ps =
          gpipe::detail::times_of(plan_.costs().of(s), plan_.cut().first[s], plan_.cut().first[s + 1], true);
      ns.push_back({ps.forward / 1000, ps.backward_input / 1000, ps.backward_parameters / 1000});
    }
    return ms(ns);
  }

 private:
  gpipe::step_plan plan_;
  std::vector<gpipe::link_times> transfers_;
};

/// Each schedule on two hosts, or the given one: measured over predicted, `hosts.predicted.SCHEDULE.LINK`. A sample of
/// a micro-batch has 1 KiB on the link. The prediction has the times that the layers took in the same step.
inline void measure_predicted(const std::string& link, int kib, int steps, const std::string& only) {
  gpipe::mpi::job job;
  samples_of_a_micro_batch = kib;
  const gpipe::device_spec on = measure_link(job.rank());
  if (job.rank() == 0)
    std::printf(
        "%s, %d KiB: a transfer takes %.2f ms of the 12 of a micro-batch\n"
        "schedule        predicted ms  step ms  ratio  late devices  predicted with them  ratio\n",
        link.c_str(), kib, 1e-9 * static_cast<double>(gpipe::transfer_time(std::int64_t{4} * edge_width * kib, on)));
  for (const gpipe::schedule_kind kind : gpipe::schedule_kinds) {
    if (kind == gpipe::schedule_kind::forward_only || (only != "all" && only != key_of(kind))) continue;
    const two_hosts of(gpipe::network_of<two_devices>, kind, on);
    std::vector<int> cut;
    for (int s = 1; s < of.options.stages; ++s) cut.push_back(1 + s * 4 / of.options.stages);
    const std::vector<measured_step> steps_taken = measured_steps<two_devices>(job, of.options, cut, steps);
    if (job.rank() != 0) continue;
    const prediction predicted(gpipe::network_of<two_devices>, of, cut);
    std::vector<double> ms, late, with_late, ratio;
    for (const measured_step& it : steps_taken) {
      double busy = 0;
      for (const gpipe::stage_times& s : it.stages)
        busy += static_cast<double>(s.forward + s.backward_input + s.backward_parameters);
      ms.push_back(it.ms);
      late.push_back(1e-6 * busy / (12 * layer_ms) - 1);
      with_late.push_back(predicted.ms(it.stages));
      ratio.push_back(it.ms / with_late.back());
    }
    std::printf("%-14s  %12.1f  %7.1f  %5.3f  %10.1f %%  %19.1f  %5.3f\n", gpipe::name_of(kind), predicted.ms(),
                fastest(ms), fastest(ms) / predicted.ms(), 100 * median(late), median(with_late), median(ratio));
    result("hosts.predicted." + key_of(kind) + "." + link, median(ratio), "ratio");
  }
}

/// The step of the cut that ignores transfers over that of the cut that counts them: `hosts.cut_gain`.
inline void measure_cut_gain(int kib, int steps) {
  gpipe::mpi::job job;
  layer_ms = 0.5;
  samples_of_a_micro_batch = kib;
  const gpipe::network& net = gpipe::network_of<one_narrow_edge>;
  two_hosts of(net, gpipe::schedule_kind::one_f_one_b, measure_link(job.rank()));
  std::vector<int> cuts[2];
  for (const bool counts : {false, true}) {
    of.options.cost_transfers = counts;
    cuts[counts] = {gpipe::make_plan(net, of.options).first[1]};
  }
  std::vector<double> ms[2];
  for (int round = 0; round < 3; ++round)
    for (const bool counts : {false, true})
      for (const measured_step& it : measured_steps<one_narrow_edge>(job, of.options, cuts[counts], steps))
        ms[counts].push_back(it.ms);
  if (job.rank() != 0) return;
  std::printf("the cut            stage 1 begins at layer  predicted ms  step ms\n");
  double predicted[2];
  for (const bool counts : {false, true}) {
    predicted[counts] = prediction(net, of, cuts[counts]).ms();
    std::printf("%-17s  %23d  %12.1f  %7.1f\n", counts ? "counts transfers" : "ignores transfers", cuts[counts][0],
                predicted[counts], fastest(ms[counts]));
  }
  result("hosts.cut_gain", fastest(ms[0]) / fastest(ms[1]), "ratio");
  result("hosts.cut_gain.predicted", predicted[0] / predicted[1], "ratio");
}

}  // namespace bench
