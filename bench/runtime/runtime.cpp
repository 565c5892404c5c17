// How much does an empty action cost? Two workers run their programs over layers with empty kernels.

#include "../measure.hpp"

#include <gpipe/core/descriptions/optimizer.hpp>
#include <gpipe/make_plan.hpp>
#include <gpipe/model/structure/items.hpp>
#include <gpipe/plan/program/step_programs.hpp>
#include <gpipe/train/trainer.hpp>
#include <gpipe/train/trainer_checkpoints.hpp>
#include <gpipe/transport/in_process/worker_signals.hpp>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <thread>
#include <vector>

namespace {

using gpipe::tensor;

// A layer with all kernels, each empty.
struct nothing {
  template <class In>
  struct on {
    using output = In;
    static constexpr gpipe::parameter parameters[] = {{"nothing", {1}}};
    static void forward(const auto&, const auto&) {}
    static void backward_input(const auto&, const auto&) {}
    static void backward_parameters(const auto&, const auto&) {}
  };
};

struct no_loss {
  template <class In>
  struct on {
    using output = gpipe::bundle<>;
    static constexpr gpipe::partial partials[] = {"loss"};
    static void forward(const auto&, const auto& a) {
      if (a.partials()) *a.partials() = 0;
    }
    static void backward_input(const auto&, const auto&) {}
  };
};

struct net : gpipe::model<gpipe::input<float, 1>, gpipe::repeat<8, nothing>, no_loss> {};

constexpr int micro_batches = 256;

class training {
 public:
  training(int stages, int count, std::size_t trace_events)
      : inputs_(static_cast<std::size_t>(count)),
        trainer_(gpipe::plan_options{.stages = stages,
                                     .micro_batches = count,
                                     .micro_batch_size = 1,
                                     .recompute = gpipe::recompute_mode::never},
                 gpipe::sgd{}, options(trace_events)) {
    const auto& plan = trainer_.plan();
    const gpipe::detail::step_programs programs(plan.options.chosen_schedule(), stages, count, plan.options.recompute,
                                                plan.links.data(), static_cast<int>(plan.links.size()),
                                                gpipe::detail::send_mode::synchronous);
    for (int w = 0; w < programs.workers(); ++w) longest_ = std::max(longest_, programs.views()[w].length);
  }

  void step() { trainer_.step(gpipe::batch(static_cast<int>(inputs_.size())).with("inputs", inputs_)); }
  /// Microseconds per instruction of a worker, over a few steps in a row.
  double action_us() {
    constexpr int steps = 4;
    trainer_.reset_report();
    step();  // its workers may have slept during other measurements
    const double time = bench::timed([this] {
      for (int i = 0; i < steps; ++i) step();
    });
    return 1e6 * time / (steps * longest_);
  }
  int longest() const { return longest_; }

 private:
  static gpipe::training_options options(std::size_t trace_events) {
    gpipe::training_options how;
    how.trace_events = trace_events;
    return how;
  }
  std::vector<float> inputs_;
  gpipe::trainer<net, gpipe::sgd> trainer_;
  int longest_ = 0;
};

void spin_for(double seconds) {
  for (const double begin = bench::now(); bench::now() - begin < seconds;) {
  }
}

/// The cost of one wake for both sides, in microseconds.
struct wake {
  double waker_us, sleeper_us;
};

// A worker that spins for a given time before it sleeps, and one that wakes it after the pause.
std::vector<wake> measure_wakes(std::chrono::nanoseconds spin, double pause, int count) {
  gpipe::detail::worker_signals line(2, {.spin = spin});
  std::atomic<int> ready{0}, back{0};
  std::atomic<double> returned{0};
  std::thread sleeper([&] {
    for (int i = 1; i <= count; ++i) {
      line.wait_idle(0, [&] { return ready.load(std::memory_order_acquire) >= i; });
      returned.store(bench::now(), std::memory_order_relaxed);
      back.store(i, std::memory_order_release);
    }
  });
  std::vector<wake> found;
  for (int i = 1; i <= count; ++i) {
    spin_for(pause);
    const double begin = bench::now();
    ready.store(i, std::memory_order_release);
    line.wake(0);
    const double woken = bench::now();
    while (back.load(std::memory_order_acquire) < i) {
    }
    found.push_back({1e6 * (woken - begin), 1e6 * (returned.load(std::memory_order_relaxed) - begin)});
  }
  sleeper.join();
  return found;
}

}  // namespace

int main() {
  bench::print_environment();

  training plain(2, micro_batches, 0), traced(2, micro_batches, 16384), alone(1, micro_batches, 0),
      crowd(8, micro_batches, 0);
  std::vector<double> plain_us, traced_us, alone_us, crowd_us;
  for (int round = 0; round < 200; ++round) {
    // Each is first equally often.
    if (round % 2 == 0) plain_us.push_back(plain.action_us());
    traced_us.push_back(traced.action_us());
    if (round % 2 == 1) plain_us.push_back(plain.action_us());
    if (round % 10 == 0) alone_us.push_back(alone.action_us());
    if (round % 10 == 0) crowd_us.push_back(crowd.action_us());
  }

  training small(1, 1, 0);
  std::vector<double> warm_us, paused_us;
  for (int round = 0; round < 300; ++round) {
    small.step();
    warm_us.push_back(1e6 * bench::timed([&] { small.step(); }));
    spin_for(1e-3);
    paused_us.push_back(1e6 * bench::timed([&] { small.step(); }));
  }

  std::vector<double> handed_us, woken_us, waking_us;
  for (const wake& w : measure_wakes(std::chrono::milliseconds(10), 1e-4, 300)) handed_us.push_back(w.sleeper_us);
  for (const wake& w : measure_wakes(std::chrono::nanoseconds(0), 1e-3, 300)) {
    woken_us.push_back(w.sleeper_us);
    waking_us.push_back(w.waker_us);
  }

  const auto row = [](const char* what, const std::vector<double>& us) {
    std::printf("%-58s %8.3f  %8.3f  %8.3f\n", what, bench::quantile(us, 0.1), bench::median(us),
                bench::quantile(us, 0.9));
  };
  std::printf("%-58s %8s  %8s  %8s\n", "microseconds", "10 %", "median", "90 %");
  row("an action, 1 worker (no channels)", alone_us);
  row("an action, 2 workers on 2 cores", plain_us);
  row("the same with a trace", traced_us);
  row("an action, 8 workers that share the cores", crowd_us);
  row("a step of 1 stage, 1 micro-batch, after another one", warm_us);
  row("the same, after a pause of 1 ms", paused_us);
  row("a waiting worker continues, after a spin", handed_us);
  row("the same, after sleep", woken_us);
  row("cost of the wake for the waking worker", waking_us);
  std::printf("a worker of 2 runs up to %d instructions per step, of 8 %d\n\n", plain.longest(), crowd.longest());

  bench::result("runtime.action_us", bench::median(plain_us), "us");
  bench::result("runtime.trace_us", bench::median(traced_us) - bench::median(plain_us), "us");
  bench::result("runtime.wake_us", bench::median(woken_us), "us");
}
