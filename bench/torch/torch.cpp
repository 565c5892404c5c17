// Two stages on two cores, compared with torch on the same two cores: the whole mini-batch at once on two threads, and
// torch.distributed.pipelining.
//
//     torch [rounds [network ...]]

#include "../images.hpp"
#include "../peer.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

namespace {

using namespace gpipe;

struct way {
  std::string whose, name;
  std::function<double(int)> seconds;  // of the given number of steps
  int steps = 1;                       // for about a tenth of a second
  std::vector<double> rates{};         // GFLOP/s of useful work

  double rate() const { return rates.empty() ? 0 : bench::median(rates); }
};

const way& best_of(const std::vector<way>& ways, const std::string& whose) {
  const way* best = nullptr;
  for (const way& w : ways)
    if (w.whose == whose && (best == nullptr || w.rate() > best->rate())) best = &w;
  return *best;
}

template <class Net>
void compare(const std::string& name, int micro_batches, int micro_batch_size, int rounds) {
  std::printf("%s, %d micro-batches of %d; GFLOP/s, medians of %d rounds\n", name.c_str(), micro_batches,
              micro_batch_size, rounds);
  const int samples = micro_batches * micro_batch_size;
  const typename bench::workload<Net>::data made(samples);
  const batch on = made.all();
  constexpr bool images = std::is_same_v<typename bench::workload<Net>::data, bench::random_pixels>;
  const plan_options two_stages{.stages = 2,
                                .micro_batches = micro_batches,
                                .micro_batch_size = micro_batch_size,
                                .recompute = recompute_mode::never};
  measured_profile costs;
  if constexpr (images) {  // torch's pipeline is cut by seconds too
    plan_options one_stage = two_stages;
    one_stage.stages = 1;
    costs = trainer<Net, sgd>(one_stage, sgd{}).profile_layers(on);
  }
  bench::rival whole("torch/whole_batch.py", name), pipelining("torch/pipelining.py", name);
  const auto ours = [&](schedule_kind schedule) {
    plan_options options = two_stages;
    options.schedule = schedule;
    if (images) options.profile = costs.view();
    return [&on, it = std::make_shared<trainer<Net, sgd>>(options, sgd{.learning_rate = 1e-3})](int steps) {
      return bench::timed([&] {
        for (int i = 0; i < steps; ++i) it->step(on);
      });
    };
  };
  const auto theirs = [](bench::rival& it, const std::string& of) {
    return [&it, of](int steps) { return it.seconds(of, steps); };
  };
  std::vector<way> ways{{"gpipe", "fill-drain", ours(schedule_kind::fill_drain)},
                        {"torch, whole batch", "plain", theirs(whole, "plain")},
                        {"torch pipelining", "GPipe", theirs(pipelining, "gpipe")},
                        {"gpipe", "1F1B", ours(schedule_kind::one_f_one_b)},
                        {"torch, whole batch", "compiled", theirs(whole, "compiled")},
                        {"torch pipelining", "1F1B", theirs(pipelining, "1f1b")}};
  if constexpr (images) ways.push_back({"torch, whole batch", "last", theirs(whole, "last")});
  for (way& w : ways) {
    w.seconds(1), w.seconds(1);  // the first steps compile and touch memory
    w.steps = std::clamp(static_cast<int>(0.1 / w.seconds(1)), 1, 200);
  }
  const double work = 1e-9 * bench::workload<Net>::operations() * samples;
  for (int round = 0; round < rounds; ++round)
    for (way& w : ways) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));  // threads of the previous one spin for a while
      w.rates.push_back(w.steps * work / w.seconds(w.steps));
    }

  for (const way& w : ways)
    if (w.rate() > 0)
      std::printf("  %-20s %-10s %7.1f  (10 %% %.1f, 90 %% %.1f)\n", w.whose.c_str(), w.name.c_str(), w.rate(),
                  bench::quantile(w.rates, 0.1), bench::quantile(w.rates, 0.9));
  const way& us = best_of(ways, "gpipe");
  const auto report = [&](const way& them, const std::string& called) {
    if (them.rate() == 0) return;
    std::vector<double> ratios;
    for (std::size_t i = 0; i < us.rates.size(); ++i) ratios.push_back(us.rates[i] / them.rates[i]);
    bench::result("torch." + name + "." + called, bench::median(ratios), "ratio");
  };
  const way& compiled = *std::find_if(ways.begin(), ways.end(), [](const way& w) { return w.name == "compiled"; });
  if (compiled.rate() == 0) std::printf("  torch is not installed: gpipe alone\n");
  report(best_of(ways, "torch, whole batch"), "over_whole_batch");
  report(compiled, "over_compiled");
  report(best_of(ways, "torch pipelining"), "over_pipelining");
  std::printf("\n");
}

}  // namespace

int main(int count, char** arguments) {
  const int rounds = count > 1 ? std::atoi(arguments[1]) : 15;
  bench::print_environment();
  const auto asked = [&](const std::string& name) {
    return count < 3 || std::find(arguments + 2, arguments + count, name) != arguments + count;
  };
  if (asked("mlp")) compare<bench::mlp>("mlp", 32, 32, rounds);
  if (asked("mlps")) compare<bench::mlps>("mlps", 32, 4, rounds);
  if (asked("tf")) compare<bench::tf>("tf", 8, 4, rounds);
  if (asked("tfs")) compare<bench::tfs>("tfs", 32, 2, rounds);
  if (asked("resnet")) compare<bench::resnet26>("resnet", 8, 8, rounds);
  if (asked("amoebanet")) compare<bench::amoebanet>("amoebanet", 8, 8, rounds);
}
