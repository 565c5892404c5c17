// Two stages on two cores, compared with two independent trainings, one on each core: how much does pipelining cost
// beyond its bubble?
//
//     pipeline [rounds]

#include "../networks.hpp"
#include "../two_trainings.hpp"

#include <gpipe/tools/report/report.hpp>

#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

namespace {

using namespace gpipe;

struct figures {
  double piped, both, alone, share;
};

template <class Net>
figures measure(const char* name, schedule_kind schedule, int micro_batches, int micro_batch_size, int rounds,
                int steps) {
  const int samples = micro_batches * micro_batch_size;
  const typename bench::workload<Net>::data made(samples);
  const batch on = made.all();
  const auto options = [&](int stages) {
    return plan_options{.stages = stages,
                        .micro_batches = micro_batches,
                        .micro_batch_size = micro_batch_size,
                        .recompute = recompute_mode::never,
                        .schedule = schedule};
  };
  using training = trainer<Net, sgd>;
  const sgd rule{.learning_rate = 1e-3};
  training piped(options(2), rule), first(options(1), rule), second(options(1), rule);
  for (training* it : {&piped, &first, &second})
    bench::run(*it, on, 1), it->reset_report();  // first steps touch memory

  // Each round does the same work in each way, 2 x `steps` steps; a training alone does half of it.
  const double work = 1e-9 * bench::workload<Net>::operations() * samples;
  const double bubble_left = static_cast<double>(micro_batches) / (micro_batches + 1);
  std::vector<double> of_piped, of_both, of_alone, share;
  for (int round = 0; round < rounds; ++round) {
    const double before = bench::timed([&] { bench::run(piped, on, steps); });
    const double both = bench::run_both(first, second, on, steps);
    const double after = bench::timed([&] { bench::run(piped, on, steps); });
    const double alone = bench::timed([&] { bench::run(first, on, steps); });
    of_piped.push_back(2 * steps * work / (before + after));
    of_both.push_back(2 * steps * work / both);
    of_alone.push_back(steps * work / alone);
    share.push_back(of_piped.back() / (of_both.back() * bubble_left));
  }

  std::printf("%s, %s: %.2f M parameters, %d micro-batches of %d; GFLOP/s\n", name, gpipe::name_of(schedule),
              1e-6 * static_cast<double>(network_of<Net>.parameters()), micro_batches, micro_batch_size);
  const auto row = [](const char* what, const std::vector<double>& values, int digits) {
    std::printf("  %-28s %6.*f  (10 %% %.*f, 90 %% %.*f)\n", what, digits, bench::median(values), digits,
                bench::quantile(values, 0.1), digits, bench::quantile(values, 0.9));
  };
  row("2 stages", of_piped, 1);
  row("2 trainings of 1 stage", of_both, 1);
  row("1 training of 1 stage alone", of_alone, 1);
  row("share", share, 3);
  std::printf("\n");
  for (const training* it : {&piped, &first}) {
    write_report(std::cout, it->report());
    for (const stage_report& s : it->report()) {
      const double time = 0.01 * static_cast<double>(s.busy() + s.wait_ns);
      std::printf("stage %d: waits %.2f %%, reduces %.2f %%, updates %.2f %% of its time\n", s.stage,
                  static_cast<double>(s.wait_ns) / time, static_cast<double>(s.busy(action_kind::reduce)) / time,
                  static_cast<double>(s.busy(action_kind::update)) / time);
    }
    std::printf("\n");
  }
  return {bench::median(of_piped), bench::median(of_both), bench::median(of_alone), bench::median(share)};
}

}  // namespace

int main(int count, char** arguments) {
  const int rounds = count > 1 ? std::atoi(arguments[1]) : 15;
  bench::print_environment();
  for (const auto& [schedule, suffix] :
       {std::pair{schedule_kind::one_f_one_b, ".1f1b"}, {schedule_kind::fill_drain, ""}}) {
    const figures mlp = measure<bench::mlp>("mlp", schedule, 32, 32, rounds, 2);
    const figures small = measure<bench::mlps>("mlps", schedule, 32, 4, 2 * rounds, 60);
    const figures tf = measure<bench::tf>("tf", schedule, 8, 4, rounds, 1);
    const auto report = [&, of = suffix](const char* what, double value, const char* unit) {
      bench::result(std::string("pipeline.") + what + of, value, unit);
    };
    report("gflops", mlp.piped, "GFLOP/s");
    report("independent_gflops", mlp.both, "GFLOP/s");
    report("alone_gflops", mlp.alone, "GFLOP/s");
    report("small_gflops", small.piped, "GFLOP/s");
    report("small_share", small.share, "ratio");
    report("mlps.share", small.share, "ratio");
    report("share", mlp.share, "ratio");
    report("tf.share", tf.share, "ratio");
  }
}
