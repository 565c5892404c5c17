// sanitizers: none
#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <gpipe/job.hpp>
#include <gpipe/train/data/dataset.hpp>
#include <gpipe/train/fit.hpp>
#if GPIPE_WITH_HWLOC
#include <gpipe/hwloc.hpp>
#include <gpipe/mpi.hpp>
#endif

#include "support/allocations.hpp"
#include "support/job_trainings.hpp"

// A job whose processes have several workers each, also unequal numbers: the same bits as in the threads of one.

using namespace laws;

namespace {

/// With this number of workers in each replica, more than processes.
plan_options plan_with(schedule_kind kind, int workers, int replicas = 1) {
  plan_options o = plan_by(kind, workers);
  o.workers = workers, o.replicas = replicas;
  return o;
}

template <class Net, class Data>
void same_as_in_threads(const Data& data, schedule_kind kind, int replicas = 1, shard shares = shard::none) {
  const int each = the_job().ranks() / replicas;
  for (const int workers : {each + 1, 2 * each}) {
    plan_options o = plan_with(kind, workers, replicas);
    if (o.stages > layers_of<Net> || o.max_workers() < workers) continue;
    CAPTURE(std::string(name_of(kind)));
    CAPTURE(workers);
    const auto expected = numbers_of<Net>(o, options_in(nullptr), data);
    o.shard = shares;
    CHECK(numbers_of<Net>(o, options_in(&the_job()), data) == expected);
  }
}

}  // namespace

TEST_CASE("workers in several processes have the bits of threads, in every schedule") {
  for (const schedule_kind kind : schedule_kinds)
    if (kind != schedule_kind::forward_only) same_as_in_threads<residual_net<float>>(plain, kind);
}
TEST_CASE("devices choose the process of each worker, and the bits are those of threads") {
  const int ranks = the_job().ranks(), workers = 2 * ranks;
  for (const schedule_kind kind : {schedule_kind::fill_drain, schedule_kind::zb_v}) {
    plan_options o = plan_by(kind, workers);
    if (o.stages > layers_of<residual_net<float>>) continue;
    std::vector<device_spec> each(static_cast<std::size_t>(o.stages), this_cpu);
    for (int s = 0; s < o.stages; ++s) {
      // The first process has one worker, between two of the last, which has all that the others leave.
      const int worker = o.chosen_schedule().worker_of(o.stages, s);
      each[static_cast<std::size_t>(s)].process = worker == 1                    ? 0
                                                  : worker > 1 && worker < ranks ? worker - 1
                                                                                 : ranks - 1;
    }
    o.devices = each.data(), o.device_count = o.stages;
    CAPTURE(std::string(name_of(kind)));
    CHECK(numbers_of<residual_net<float>>(o, options_in(&the_job()), plain) ==
          numbers_of<residual_net<float>>(o, options_in(nullptr), plain));
  }
}
TEST_CASE("workers in several processes have the bits of threads: skips and tied layers") {
  same_as_in_threads<skip_net<float>>(channels, schedule_kind::one_f_one_b);
  same_as_in_threads<tied_net<float>>(plain, schedule_kind::zb_h1);
}

TEST_CASE("replicas whose processes have several workers have the bits of threads, also if they keep shares") {
  for (int R = 2; R <= the_job().ranks(); ++R) {
    if (the_job().ranks() % R != 0) continue;
    same_as_in_threads<tied_net<float>>(plain, schedule_kind::one_f_one_b, R);
    same_as_in_threads<residual_net<float>>(plain, schedule_kind::zb_h1, R, shard::optimizer_state);
    same_as_in_threads<residual_net<float>>(plain, schedule_kind::fill_drain, R, shard::gradients);
  }
}

TEST_CASE("a throw in any worker of any process fails the step in all, and the next step works") {
  const int ranks = the_job().ranks(), workers = 2 * ranks;
  const plan_options o = plan_with(schedule_kind::one_f_one_b, workers);
  trainer<residual_net<float>, adam> alone(o, {.learning_rate = 0.02}, options_in(nullptr));
  alone.step(plain.take(0, 13));
  for (int thrower = 0; thrower < workers; ++thrower)
    for (const bool forward : {true, false}) {
      CAPTURE(thrower);
      CAPTURE(forward);
      bool throws = true;
      training_options how = options_in(&the_job());
      how.before = [&](const instruction& it) {
        const bool here = forward ? it.kind == action_kind::forward && it.micro_batch == 1
                                  : it.kind == action_kind::backward || it.kind == action_kind::backward_parameters;
        if (throws && it.stage == thrower && here) throw std::runtime_error("broken");
      };
      trainer<residual_net<float>, adam> training(o, {.learning_rate = 0.02}, how);
      const auto begin = std::chrono::steady_clock::now();
      try {
        training.step(plain.take(0, 13));
        FAIL_CHECK("no error");
      } catch (const error& cause) {
        CHECK(cause.wrong() == "broken");
        CHECK(cause.where().stage == thrower);
        CHECK(cause.where().rank == thrower / 2);
      }
      CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(5));
      throws = false;
      training.step(plain.take(0, 13));
      CHECK(training.parameter_hash() == alone.parameter_hash());
    }
}

TEST_CASE("a deadline without progress in one worker of a process ends all, and a wait within a process is no cause") {
  const int workers = 2 * the_job().ranks();
  training_options how = options_in(&the_job());
  how.deadline = std::chrono::milliseconds(400);
  bool sleeps = false;
  how.before = [&](const instruction& it) {
    // Others wait for longer than the deadline, while this process makes progress.
    if (sleeps && it.stage == 0 && it.kind == action_kind::forward)
      std::this_thread::sleep_for(std::chrono::milliseconds(250));
  };
  trainer<residual_net<float>, adam> training(plan_with(schedule_kind::fill_drain, workers), {}, how);
  training.step(plain.take(0, 13));
  sleeps = true;
  training.step(plain.take(0, 13));
  CHECK(training.steps() == 2);
}

TEST_CASE("a step of several workers in each process allocates nothing by operator new") {
  trainer<residual_net<float>, adam> training(plan_with(schedule_kind::one_f_one_b, 2 * the_job().ranks()), {},
                                              options_in(&the_job()));
  const batch data = plain.take(0, 16);
  training.step(data);
  const long before = allocations;
  for (int i = 0; i < 3; ++i) training.step(data);
  CHECK(allocations == before);
}

TEST_CASE("the report has the workers of each process") {
  const int ranks = the_job().ranks(), workers = ranks + 1;
  training_options how = options_in(&the_job());
  how.trace_events = 1000;
  trainer<residual_net<float>, adam> training(plan_with(schedule_kind::one_f_one_b, workers), {}, how);
  training.step(plain.take(0, 13));
  const auto report = training.report();
  int in_all = 0;
  for (const stage_report& r : report) in_all += r.process_workers;
  CHECK(in_all == 2 * 2 + ranks - 1);  // the first process has two workers, each of which counts both
  for (const stage_report& r : report)
    if (r.host_processes == ranks) CHECK(r.host_workers == workers);
  REQUIRE(training.trace().size() == static_cast<std::size_t>(workers));
  for (const recorder& worker : training.trace()) CHECK(worker.events().size() > 8);
}

#if GPIPE_WITH_HWLOC && defined(__linux__)
TEST_CASE("processes that may run on the same cores bind their workers to different ones, with the bits of threads") {
  const core_set before = gpipe::detail::cores::allowed_bits();
  core_set every{};
  for (auto& some : every) some = ~std::uint64_t{0};
  the_job();
  REQUIRE(gpipe::detail::cores::bind(every));  // mpirun binds each of two processes to one core
  {
    mpi::job whole(MPI_COMM_WORLD);
    CHECK(whole.on_this_host().alike == whole.on_this_host().processes);
    const core_binding binding;
    const int workers = 2 * whole.ranks(), here = 2;
    plan_options o = plan_with(schedule_kind::one_f_one_b, workers);
    training_options how = options_in(&whole);
    how.cores = &binding;
    std::vector<core_set> seen(gpipe::detail::index(here));
    how.before = [&](const instruction& it) {
      seen[gpipe::detail::index(it.stage % here)] = gpipe::detail::cores::allowed_bits();
    };
    trainer<residual_net<float>, adam> training(o, {.learning_rate = 0.02}, how),
        alone(o, {.learning_rate = 0.02}, options_in(nullptr));
    CHECK(training.step(plain.take(0, 13)).loss == alone.step(plain.take(0, 13)).loss);
    CHECK(training.parameter_hash() == alone.parameter_hash());
    const host_cores host = whole.on_this_host();
    CHECK(host.alike == here * host.processes);
    CHECK(seen == binding.divide(here, host));
    for (const stage_report& s : training.report()) CHECK(s.own_cores > 0);
    const core_set mine = gpipe::detail::united(seen[0], seen[1]);
    std::vector<core_set> of_ranks(gpipe::detail::index(whole.ranks()));
    const int words = static_cast<int>(mine.size());
    MPI_Allgather(mine.data(), words, MPI_UINT64_T, of_ranks.data(), words, MPI_UINT64_T, MPI_COMM_WORLD);
    const bool one_host = host.processes == whole.ranks(), suffice = host.cores >= whole.ranks();
    for (int r = 0; r < whole.ranks() && one_host && suffice; ++r)
      for (std::size_t i = 0; i < mine.size() && r != whole.rank(); ++i)
        CHECK((mine[i] & of_ranks[gpipe::detail::index(r)][i]) == 0);
  }
  REQUIRE(gpipe::detail::cores::bind(before));
}
#endif
