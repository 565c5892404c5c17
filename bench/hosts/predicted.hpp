#pragma once

#include "../device_work.hpp"
#include "../schedule_key.hpp"

#include <gpipe/core/descriptions/optimizer.hpp>
#include <gpipe/layer/linear/linear.hpp>
#include <gpipe/layer/loss/softmax_cross_entropy.hpp>
#include <gpipe/make_plan.hpp>
#include <gpipe/model/structure/items.hpp>
#include <gpipe/mpi.hpp>
#include <gpipe/plan/cost/layer_cost.hpp>
#include <gpipe/plan/cut/step_time.hpp>
#include <gpipe/plan/program/simulate.hpp>
#include <gpipe/record/trace.hpp>
#include <gpipe/train/trainer.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tuple>
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

/// The time of a message to the other process, in seconds: half of a ping-pong. The shortest counts, which no other
/// program made longer. Both processes sleep before it and while they wait, so that they run soon where programs
/// outnumber cores.
inline double seconds_one_way(int rank, int bytes, int times) {
  std::vector<char> text(static_cast<std::size_t>(bytes) + 1);
  double shortest = 1e9;
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
    if (i >= 0) shortest = std::min(shortest, taken / 2);
  }
  return shortest;
}

/// This CPU with the link that MPI has, measured with messages that it sends at once. Rank 0's measure counts.
inline gpipe::device_spec measure_link(int rank) {
  prctl(PR_SET_TIMERSLACK, 1UL);
  constexpr int bytes = 60'000;  // Open MPI's limit for TCP is 65,536 with a header
  double seconds[] = {seconds_one_way(rank, 0, 400), seconds_one_way(rank, bytes, 100)};
  MPI_Bcast(seconds, 2, MPI_DOUBLE, 0, MPI_COMM_WORLD);
  gpipe::device_spec on = gpipe::this_cpu;
  on.link_latency_ns = static_cast<std::int64_t>(1e9 * seconds[0]);
  on.link_bytes_per_second = static_cast<std::int64_t>(bytes / std::max(1e-9, seconds[1] - seconds[0]));
  if (rank == 0)
    std::printf("an empty message takes %.3f ms, and the link carries %.1f MB/s\n", 1e3 * seconds[0],
                1e-6 * static_cast<double>(on.link_bytes_per_second));
  return on;
}

// A step --------------------------------------------------------------------------------------------------------------

/// A step by rank 0's clock, and what each action of both hosts took: beside other programs the emulated devices are
/// late.
struct measured_step {
  double ms = 0;
  std::vector<gpipe::trace_event> actions{};
};

template <class Net>
std::vector<measured_step> measured_steps(gpipe::process_group& job, const gpipe::plan_options& options,
                                          const std::vector<int>& cut, int steps) {
  gpipe::training_options how{.cut = cut};
  how.job = &job;
  how.trace_events = 4096;  // of one step
  gpipe::trainer<Net, gpipe::sgd> training(options, {}, how);
  const int size = options.micro_batches * options.micro_batch_size;
  const std::vector<float> ones(static_cast<std::size_t>(size), 1.0F);
  const std::vector<std::int32_t> labels(static_cast<std::size_t>(size), 0);
  const auto batch = gpipe::batch(size).with("inputs", ones).with("labels", labels);
  std::vector<measured_step> all;
  for (int i = -2; i < steps; ++i) {
    training.reset_report();
    measured_step one{.ms = 1e3 * timed([&] { training.step(batch); })};
    for (const gpipe::recorder& of : training.trace())
      one.actions.insert(one.actions.end(), of.events().begin(), of.events().end());
    if (i >= 0) all.push_back(std::move(one));
  }
  return all;
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
                .group_gradients = 1,
                .device = on,
                .profile = {profile.data(), static_cast<int>(profile.size()), samples_of_a_micro_batch},
                .cost_transfers = true} {}
};
/// The time that an action took, without waiting.
inline double ns_of(const gpipe::trace_event& it) {
  return static_cast<double>(it.end_ns - it.begin_ns - it.waited_ns);
}

/// A step of a cut, by its programs. The plan's own prediction, by `makespan_of`, is longer for a schedule whose table
/// has whole backwards: it lets a gradient leave behind the parameter part, and not before.
class prediction {
 public:
  prediction(const gpipe::network& net, const two_hosts& on, const std::vector<int>& cut)
      : plan_(gpipe::make_plan(net, on.options, cut)) {
    for (const gpipe::stage_link& l : plan_.links) {
      const auto bytes = gpipe::detail::traffic_of(net, plan_.cut(), l, plan_.options.micro_batch_size);
      const gpipe::pass_cost ps = gpipe::detail::link_cost_of(bytes, plan_.options.device);
      transfers_.push_back({ps.forward / 1000, ps.backward / 1000});
    }
    for (int s = 0; s < plan_.stages(); ++s) {
      const gpipe::stage_times ps =
          gpipe::detail::times_of(plan_.costs().of(s), plan_.cut().first[s], plan_.cut().first[s + 1], true);
      times_.push_back({ps.forward / 1000, ps.backward_input / 1000, ps.backward_parameters / 1000});
    }
  }
  /// By the simulator, with the times that the layers should take.
  double ms() const {
    return 1e-6 * static_cast<double>(gpipe::simulate(plan_.options.chosen_schedule(),
                                                      {.stages = plan_.stages(),
                                                       .micro_batches = plan_.micro_batches(),
                                                       .recompute = gpipe::recompute_mode::never,
                                                       .times = times_.data(),
                                                       .links = plan_.links.data(),
                                                       .link_count = static_cast<int>(plan_.links.size()),
                                                       .transfers = transfers_.data()}));
  }
  /// By the simulator's rules, with the time that each action took. With the times of `ms()` it is `ms()`, which is
  /// checked.
  double ms(const std::vector<gpipe::trace_event>& actions) const {
    const double same = replayed([&](const gpipe::instruction& it) { return nominal(it); });
    if (std::abs(same - ms()) > 1e-3) throw std::logic_error("the replay of a step differs from its simulation");
    std::map<std::tuple<gpipe::action_kind, int, int>, double> took;
    for (const gpipe::trace_event& it : actions) took[{it.kind, it.stage, it.micro_batch}] = ns_of(it);
    return replayed([&](const gpipe::instruction& it) { return took[{it.kind, it.stage, it.micro_batch}]; });
  }
  /// By how much the layers took longer than they should, as a share.
  double lateness(const std::vector<gpipe::trace_event>& actions) const {
    double should = 0, did = 0;
    for (const gpipe::trace_event& it : actions)
      if (const double ns = nominal({it.kind, it.stage, it.micro_batch, -1}); ns > 0) should += ns, did += ns_of(it);
    return did / should - 1;
  }

 private:
  double nominal(const gpipe::instruction& it) const {
    using enum gpipe::action_kind;
    const gpipe::stage_times& of = times_[static_cast<std::size_t>(it.stage)];
    const bool whole = it.kind == backward;
    return static_cast<double>((it.kind == forward ? of.forward : 0) +
                               (whole || it.kind == backward_input ? of.backward_input : 0) +
                               (whole || it.kind == backward_parameters ? of.backward_parameters : 0));
  }
  template <class Time>
  double replayed(const Time& ns_of_action) const {
    using enum gpipe::action_kind;
    std::vector<std::size_t> at(plan_.programs.size());
    std::vector<double> now(at.size()), free(2 * plan_.links.size());
    std::map<std::pair<std::size_t, int>, double> arrivals;  // [direction of a link][micro-batch]
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t w = 0; w < at.size(); ++w)
        for (; at[w] < plan_.programs[w].size(); ++at[w], moved = true) {
          const gpipe::instruction& it = plan_.programs[w][at[w]];
          const bool receives = it.kind == receive_activation || it.kind == receive_gradient;
          const bool back = it.kind == send_gradient || it.kind == receive_gradient;
          const std::size_t link = static_cast<std::size_t>(it.link), direction = 2 * link + back;
          if (receives) {
            const auto found = arrivals.find({direction, it.micro_batch});
            if (found == arrivals.end()) break;
            now[w] = std::max(now[w], found->second);
          } else if (it.kind == send_activation || it.kind == send_gradient) {
            const gpipe::link_times& takes = transfers_[link];
            free[direction] =
                std::max(free[direction], now[w]) + static_cast<double>(back ? takes.back : takes.forward);
            arrivals[{direction, it.micro_batch}] = free[direction];
          }
          if (!receives && it.micro_batch >= 0) now[w] += ns_of_action(it);
        }
    }
    return 1e-6 * *std::max_element(now.begin(), now.end());
  }

  gpipe::step_plan plan_;
  std::vector<gpipe::link_times> transfers_;
  std::vector<gpipe::stage_times> times_;
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
      ms.push_back(it.ms);
      late.push_back(predicted.lateness(it.actions));
      with_late.push_back(predicted.ms(it.actions));
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
