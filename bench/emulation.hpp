#pragma once

// A pipeline of emulated devices: the times of its stages and links are numbers, and everything else is the library.

#include "device_work.hpp"

#include <gpipe/core/descriptions/optimizer.hpp>
#include <gpipe/layer/linear/linear.hpp>
#include <gpipe/layer/loss/softmax_cross_entropy.hpp>
#include <gpipe/make_plan.hpp>
#include <gpipe/model/structure/items.hpp>
#include <gpipe/plan/program/simulate.hpp>
#include <gpipe/train/trainer.hpp>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <utility>
#include <vector>

namespace bench {

/// A pipeline as numbers: of each stage the times of a micro-batch, and of each link from a stage to the next.
struct timed_pipeline {
  int micro_batches = 1;
  gpipe::recompute_mode recompute = gpipe::recompute_mode::always;
  std::vector<gpipe::stage_times> stages{};
  std::vector<gpipe::link_times> links{};

  int devices() const { return static_cast<int>(stages.size()); }
};

/// The length of a step with fill-drain, by simulation, in the unit of the times. The witness sees every action.
template <class Witness = gpipe::detail::no_witness>
std::int64_t simulated(const timed_pipeline& p, const Witness& witness = {}) {
  std::vector<gpipe::stage_link> links;
  for (int s = 0; s + 1 < p.devices(); ++s) links.push_back({s, s + 1, true});
  return gpipe::simulate(gpipe::fill_drain{},
                         {.stages = p.devices(),
                          .micro_batches = p.micro_batches,
                          .recompute = p.recompute,
                          .times = p.stages.data(),
                          .links = links.data(),
                          .link_count = static_cast<int>(links.size()),
                          .transfers = p.links.data()},
                         {}, witness);
}

inline constexpr int max_devices = 8;

/// Seconds that the stages of the running emulation take.
inline std::array<double, max_devices> forward_seconds{}, backward_seconds{};

/// The only layer of a stage but for its ends. It keeps its output: what no backward reads is not computed again.
template <int Stage>
struct stage_work {
  template <class In>
  struct on {
    using output = In;
    static constexpr gpipe::keep keeps{.output = true};
    static constexpr gpipe::work cost{.forward = 1'000'000, .backward_input = 2'000'000};
    static void forward(const auto&, const auto&) { bench::busy_for(forward_seconds[Stage]); }
    static void backward_input(const auto&, const auto&) { bench::busy_for(backward_seconds[Stage]); }
  };
};

template <class Stages>
struct emulated_network;
// The first linear layer makes a gradient flow back to the first device.
template <int... Stages>
struct emulated_network<std::integer_sequence<int, Stages...>>
    : gpipe::model<gpipe::input<float, 1>, gpipe::linear<4>, stage_work<Stages>..., gpipe::softmax_cross_entropy> {};

/// The links of an emulation. A worker calls this before each instruction: a send departs when its link is free, and a
/// receive waits until it has arrived. Each direction of a link carries one transfer after the other.
class emulated_links {
 public:
  explicit emulated_links(const timed_pipeline& p)
      : micro_batches_(p.micro_batches), directions_(2 * p.links.size()), arrivals_(directions_.size() * count()) {
    for (std::size_t l = 0; l < p.links.size(); ++l) {
      directions_[2 * l].seconds = 1e-9 * static_cast<double>(p.links[l].forward);
      directions_[2 * l + 1].seconds = 1e-9 * static_cast<double>(p.links[l].back);
    }
    reset();
  }

  void reset() {
    for (direction& d : directions_) d.free = 0;
    for (std::atomic<double>& a : arrivals_) a = never;
  }

  void before(const gpipe::instruction& it) {
    using enum gpipe::action_kind;
    const bool sends = it.kind == send_activation || it.kind == send_gradient;
    if (!sends && it.kind != receive_activation && it.kind != receive_gradient) return;
    const bool back = it.kind == send_gradient || it.kind == receive_gradient;
    const std::size_t at = 2 * static_cast<std::size_t>(it.link) + (back ? 1 : 0);
    std::atomic<double>& arrival = arrivals_[at * count() + static_cast<std::size_t>(it.micro_batch)];
    if (sends) {
      direction& of = directions_[at];
      of.free = (of.free > bench::now() ? of.free : bench::now()) + of.seconds;
      arrival = of.free;
    } else {
      while (arrival == never) std::this_thread::sleep_for(std::chrono::microseconds(20));
      bench::busy_until(arrival);
    }
  }

 private:
  static constexpr double never = -1;
  struct direction {
    double seconds = 0, free = 0;  // free: when all that was sent has arrived; the sender's alone
  };
  std::size_t count() const { return static_cast<std::size_t>(micro_batches_); }

  int micro_batches_;
  std::vector<direction> directions_;
  std::vector<std::atomic<double>> arrivals_;
};

/// The median of some steps, in the nanoseconds of the times.
template <int Devices>
double measured(const timed_pipeline& p, int steps) {
  for (std::size_t s = 0; s < p.stages.size(); ++s) {
    forward_seconds[s] = 1e-9 * static_cast<double>(p.stages[s].forward);
    backward_seconds[s] = 1e-9 * static_cast<double>(p.stages[s].backward_input);
  }
  std::vector<int> cut;
  for (int s = 1; s < Devices; ++s) cut.push_back(1 + s);
  emulated_links links(p);
  gpipe::training_options how{.cut = cut};
  how.before = [&links](const gpipe::instruction& it) { links.before(it); };
  gpipe::trainer<emulated_network<std::make_integer_sequence<int, Devices>>, gpipe::sgd> training(
      gpipe::plan_options{
          .stages = Devices, .micro_batches = p.micro_batches, .micro_batch_size = 1, .recompute = p.recompute},
      {}, how);
  const auto count = static_cast<std::size_t>(p.micro_batches);
  const std::vector<float> inputs(count, 1.0F);
  const std::vector<std::int32_t> labels(count, 0);
  const auto batch = gpipe::batch(p.micro_batches).with("inputs", inputs).with("labels", labels);
  std::vector<double> ns;
  for (int i = 0; i <= steps; ++i) {  // the first one warms up
    links.reset();
    const double seconds = bench::timed([&] { training.step(batch); });
    if (i > 0) ns.push_back(1e9 * seconds);
  }
  return bench::median(ns);
}
inline double measured_on(const timed_pipeline& p, int steps) {
  return p.devices() == 2 ? measured<2>(p, steps) : p.devices() == 4 ? measured<4>(p, steps) : measured<8>(p, steps);
}

}  // namespace bench
