// Two replicas of one stage on two cores, compared with two independent trainings, one on each core: how much do sums
// over replicas and a common step cost?
//
//     replicas [rounds]
//
// And what do shares cost and save (shares.hpp), and how many bytes do replicas send (traffic.hpp)? The bench calls
// mpirun for two processes `replicas --sharded [rounds]`, and for two and four `replicas --traffic`.

#include "../networks.hpp"
#include "../processes.hpp"
#include "../two_trainings.hpp"
#include "shares.hpp"
#include "traffic.hpp"

#include <gpipe/tools/report/report.hpp>

#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <string>
#include <string_view>
#include <vector>

namespace {

using namespace gpipe;

/// The share of two independent trainings' rate. Rates count useful work: 6 operations per weight and sample.
template <class Net>
double measure(const char* name, int micro_batches, int micro_batch_size, int rounds, int steps) {
  const int samples = micro_batches * micro_batch_size;
  const bench::random_images half(samples), whole(2 * samples);
  const batch on_one = half.all(), on_two = whole.all();
  const auto options = [&](int replicas) {
    return plan_options{.micro_batches = micro_batches,
                        .micro_batch_size = micro_batch_size,
                        .recompute = recompute_mode::never,
                        .replicas = replicas};
  };
  using training = trainer<Net, sgd>;
  const sgd rule{.learning_rate = 1e-3};
  training two(options(2), rule), first(options(1), rule), second(options(1), rule);
  bench::run(two, on_two, 1), two.reset_report();  // first steps touch memory
  for (training* it : {&first, &second}) bench::run(*it, on_one, 1), it->reset_report();

  // Each round does the same work in each way; a training alone does half of it.
  const double work = 6e-9 * static_cast<double>(network_of<Net>.parameters()) * samples;
  std::vector<double> of_two, of_both, of_alone, share;
  for (int round = 0; round < rounds; ++round) {
    const double before = bench::timed([&] { bench::run(two, on_two, steps); });
    const double both = bench::run_both(first, second, on_one, 2 * steps);
    const double after = bench::timed([&] { bench::run(two, on_two, steps); });
    const double alone = bench::timed([&] { bench::run(first, on_one, steps); });
    of_two.push_back(4 * steps * work / (before + after));
    of_both.push_back(4 * steps * work / both);
    of_alone.push_back(steps * work / alone);
    share.push_back(of_two.back() / of_both.back());
  }

  std::printf("%s: %.2f M parameters, %d micro-batches of %d per replica; GFLOP/s\n", name,
              1e-6 * static_cast<double>(network_of<Net>.parameters()), micro_batches, micro_batch_size);
  const auto row = [](const char* what, const std::vector<double>& values, int digits) {
    std::printf("  %-28s %6.*f  (10 %% %.*f, 90 %% %.*f)\n", what, digits, bench::median(values), digits,
                bench::quantile(values, 0.1), digits, bench::quantile(values, 0.9));
  };
  row("2 replicas", of_two, 1);
  row("2 trainings", of_both, 1);
  row("1 training alone", of_alone, 1);
  row("share", share, 3);
  std::printf("\n");
  write_report(std::cout, two.report());
  std::printf("\n");
  return bench::median(share);
}

}  // namespace

int main(int count, char** arguments) {
  const std::string_view part = count > 1 ? arguments[1] : "";
  const int rounds = std::atoi(arguments[count - 1]) > 0 ? std::atoi(arguments[count - 1]) : 15;
  if (part == "--sharded") return bench::measure_sharded(rounds), 0;
  if (part == "--traffic") return bench::measure_traffic(), 0;
  bench::print_environment();
  for (const shard shares : {shard::none, shard::optimizer_state, shard::gradients}) bench::measure_bytes(shares);
#if GPIPE_WITH_MPI
  bench::run_processes(2, "--sharded " + std::to_string(rounds));
  const double of_two = bench::run_processes(2, "--traffic")["replicas.bytes.2"];
  const double of_four = bench::run_processes(4, "--traffic")["replicas.bytes.4"];
  bench::result("replicas.bytes.4_over_2", of_four / of_two, "ratio");
#else
  std::printf("without MPI there is no replicas.sharded, and no replicas.bytes.4_over_2\n");
#endif
  const double mlp = measure<bench::mlp>("mlp", 16, 32, rounds, 2);
  const double small = measure<bench::mlps>("mlps", 32, 4, 2 * rounds, 60);
  bench::result("replicas.small", small, "ratio");
  bench::result("replicas.2", mlp, "ratio");
}
