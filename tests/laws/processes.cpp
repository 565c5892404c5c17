#include <doctest/doctest.h>

#include <chrono>
#include <cstdlib>
#include <limits>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include <gpipe/core/descriptions/adafactor.hpp>
#include <gpipe/job.hpp>
#include <gpipe/tools/testing/emulated_link.hpp>
#include <gpipe/train/data/dataset.hpp>
#include <gpipe/train/fit.hpp>

#include "support/allocations.hpp"
#include "support/job_trainings.hpp"
#include "support/wide.hpp"

// Laws 1 and 7 in the job of processes that mpirun has started: a training in the job beside one in threads, which
// every process runs by itself.

using namespace laws;

namespace {

template <class Net, class Data>
void same_as_in_threads(const Data& data) {
  std::vector<schedule_kind> kinds{schedule_kind::searched};  // each process searches for itself
  kinds.insert(kinds.end(), schedule_kinds.begin(), schedule_kinds.end());
  for (const schedule_kind kind : kinds) {
    const plan_options o = plan_by(kind, the_job().ranks());
    if (kind == schedule_kind::forward_only || o.stages > layers_of<Net> || o.max_workers() == 0) continue;
    CAPTURE(name_of(kind));
    CHECK(numbers_of<Net>(o, options_in(&the_job()), data) == numbers_of<Net>(o, options_in(nullptr), data));
    if (kind != schedule_kind::fill_drain) continue;
    plan_options grouped = o;
    grouped.recompute = recompute_mode::never, grouped.group_gradients = 3;
    CHECK(learned<Net>(grouped, options_in(&the_job()), data) == learned<Net>(o, options_in(nullptr), data));
  }
}

}  // namespace

TEST_CASE("Adafactor, groups and averaged weights have the same bits in processes as in threads") {
  const samples<float> data(20, 12, 1);
  const auto bits = [&](process_group* job) {
    training_options how = options_in(job);
    how.groups = {no_decay_for_biases_and_norms(), {.parameters = {"0.weight"}, .rate_factor = 0.5}};
    how.average_weights = 0.8;
    trainer<tied_net<float>, adafactor_with_momentum> training(plan_by(schedule_kind::one_f_one_b, the_job().ranks()),
                                                               {}, how);
    for (const int size : {13, 5}) training.step(data.take(0, size));
    const double loss = training.evaluate(data.take(0, 6), weights::averaged).loss;
    return std::tuple(state_of(training), training.parameter_hash(), loss);
  };
  CHECK(bits(&the_job()) == bits(nullptr));
}

TEST_CASE("processes have the bits of threads: residuals") { same_as_in_threads<residual_net<float>>(plain); }
TEST_CASE("processes have the bits of threads: skips") { same_as_in_threads<skip_net<float>>(channels); }
TEST_CASE("processes have the bits of threads: tied layers") { same_as_in_threads<tied_net<float>>(plain); }
TEST_CASE("processes have the bits of threads: several losses") { same_as_in_threads<losses_net<float>>(plain); }
TEST_CASE("processes have the bits of threads: integers, a head with the embedding's weight, a head in slices") {
  same_as_in_threads<integer_net<float>>(samples<float, std::int32_t>(40, 3, 1));
  same_as_in_threads<headed_net<float>>(samples<float, std::int32_t>(40, 3, 3));
  same_as_in_threads<sliced_net<float>>(samples<float, std::int32_t>(40, 3, 3));
}

TEST_CASE("with fewer processes than workers in the schedule, a process has several workers' stages") {
  plan_options o = plan_by(schedule_kind::one_f_one_b, the_job().ranks());
  o.stages = 7;
  CHECK(numbers_of<tied_net<float>>(o, options_in(&the_job()), plain).size() > 100);
  o.workers = the_job().ranks();
  CHECK(numbers_of<tied_net<float>>(o, options_in(&the_job()), plain) ==
        numbers_of<tied_net<float>>(o, options_in(nullptr), plain));
}

TEST_CASE("replicas in processes have the bits of replicas in threads") {
  const int ranks = the_job().ranks();
  for (int R = 2; R <= ranks; ++R)
    for (const schedule_kind kind : {schedule_kind::fill_drain, schedule_kind::zb_h1}) {
      if (ranks % R != 0) continue;
      plan_options o = plan_by(kind, ranks / R);
      o.replicas = R;
      for (const int S : {o.stages, 3}) {  // some processes have several of three stages
        o.stages = S;
        if (S < ranks / R) continue;
        CAPTURE(R);
        CAPTURE(S);
        CAPTURE(name_of(kind));
        plan_options folded = o;
        folded.workers = ranks / R;
        const auto same = [&]<class Net>(Net, const samples<float>& data) {
          const auto expected = numbers_of<Net>(folded, options_in(nullptr), data);
          for (const shard shares : {shard::none, shard::optimizer_state, shard::gradients}) {
            o.shard = shares;
            CHECK(numbers_of<Net>(o, options_in(&the_job()), data) == expected);
          }
        };
        same(residual_net<float>{}, plain);
        same(tied_net<float>{}, plain);
        same(skip_net<float>{}, channels);
      }
    }
}

TEST_CASE("a process needs the fields alone that its layers read") {
  const int ranks = the_job().ranks(), rank = the_job().rank(), last = ranks - 1;
  const plan_options o = plan_by(schedule_kind::one_f_one_b, ranks);
  trainer<tied_net<float>, adam> training(o, adam{}, options_in(&the_job())), twin(o, adam{}, options_in(nullptr));
  const auto part = [&](int first, int count, bool has_labels) {
    const batch whole = plain.take(first, count);
    batch mine(count);
    if (rank == 0) mine.add(*whole.find("inputs"));
    if (rank == last && has_labels) mine.add(*whole.find("labels")), mine.add(*whole.find("weights"));
    return mine;
  };
  for (const int size : {13, 16}) {
    const step_result found = training.step(part(size, size, true)), expected = twin.step(plain.take(size, size));
    CHECK(found.loss == expected.loss);
    CHECK(found.norm == expected.norm);
  }
  CHECK(training.evaluate(part(0, 9, true)).loss == twin.evaluate(plain.take(0, 9)).loss);
  const auto rows = [](const tensor_rows& all) { return std::vector<float>(all.all().begin(), all.all().end()); };
  CHECK(rows(training.predict(part(3, 9, false))) == rows(twin.predict(plain.take(3, 9))));
  CHECK(state_of(training) == state_of(twin));

  // A field that a process lacks is named with its rank, and nothing has changed.
  const std::string lacking = "the batch lacks the field \"";
  CHECK(failure_of(training, part(0, 13, false)).wrong() ==
        lacking + "labels\", which layers of rank " + std::to_string(last) + " read");
  const batch whole = plain.take(0, 13);
  batch labels(13);
  labels.add(*whole.find("labels"));
  CHECK(failure_of(training, labels).wrong() == lacking + "inputs\", which layers of rank 0 read");
  // Those who have a field have the same one.
  CHECK(failure_of(training, rank == last ? plain.take(1, 13) : whole).wrong() ==
        "ranks 0 and " + std::to_string(last) + " do not agree on the batch: its first samples differ");
  CHECK(state_of(training) == state_of(twin));

  // A dataset of those fields; rows of a field that no layer reads count the samples of the others.
  dataset mine, all;
  const std::vector<int> numbers(40);
  mine.with_unread("number", 1, numbers);
  all.with("inputs", 12, plain.inputs).with("labels", 1, plain.labels).with("weights", 1, plain.weights);
  if (rank == 0) mine.with("inputs", 12, plain.inputs);
  if (rank == last) mine.with("labels", 1, plain.labels).with("weights", 1, plain.weights);
  fit(training, mine, {.epochs = 2, .batch = 16});
  fit(twin, all, {.epochs = 2, .batch = 16});
  CHECK(state_of(training) == state_of(twin));
}

TEST_CASE("replicas in processes sum gradients during backward and have the bits of threads") {
  const int ranks = the_job().ranks();
  plan_options options{.micro_batches = 2, .micro_batch_size = 4, .replicas = 2};
  if (ranks % 2 != 0) return;
  options.stages = ranks / 2;
  const wide_training there(options, &the_job()), here(options, nullptr);
  CHECK(there.bits == here.bits);
  CHECK(there.sums_within_backward >= wide_training::min_sums);
  CHECK(here.sums_within_backward == 0);
}

TEST_CASE("a throw in any replica fails the step in all replicas, also if they keep shares") {
  for (const shard shares : {shard::none, shard::optimizer_state, shard::gradients}) {
    plan_options o = plan_by(schedule_kind::fill_drain, 1);
    o.replicas = the_job().ranks(), o.stages = 2, o.workers = 1, o.shard = shares;
    trainer<tied_net<float>, adam> twin(o, adam{}, options_in(nullptr));
    training_options how = options_in(&the_job());
    std::function<void(const instruction&)> disturbance;
    how.before = [&](const instruction& i) {
      if (disturbance) disturbance(i);
    };
    trainer<tied_net<float>, adam> disturbed(o, adam{}, how);
    for (int r = 0; r < o.replicas; ++r)
      for (const action_kind kind : {action_kind::forward, action_kind::backward_parameters, action_kind::backward,
                                     action_kind::reduce, action_kind::update})
        for (int s = 0; s < 2; ++s) {
          CAPTURE(r);
          CAPTURE(s);
          CAPTURE(name_of(kind));
          disturbance = [&](const instruction& i) {
            if (the_job().rank() == r && i.kind == kind && i.stage == s) throw std::runtime_error("thrown here");
          };
          const batch data = plain.take(r, 17);
          const std::uint64_t before = state_of(disturbed), steps = disturbed.steps();
          const error cause = failure_of(disturbed, data);
          disturbance = {};
          // Else the stage has no such action, or its worker commits through another one.
          if (disturbed.steps() > steps && (twin.step(data), true)) continue;
          CHECK(cause.wrong() == "thrown here");
          CHECK(cause.where().rank == r);
          CHECK(state_of(disturbed) == before);
          CHECK(replicas_agree(disturbed));
          CHECK(disturbed.step(data).loss == twin.step(data).loss);
        }
    CHECK(state_of(disturbed) == state_of(twin));
    CHECK(replicas_agree(disturbed));
  }
}

TEST_CASE(
    "a throw before any action of any process fails the step on all ranks, which name it, and the next step works") {
  const plan_options o = plan_by(schedule_kind::fill_drain, the_job().ranks());
  trainer<tied_net<float>, adam> twin(o, adam{}, options_in(nullptr));
  training_options how = options_in(&the_job());
  std::vector<std::vector<instruction>> programs(static_cast<std::size_t>(o.stages));
  std::function<void(const instruction&)> disturbance;
  how.before = [&](const instruction& i) {
    if (disturbance) disturbance(i);
  };
  {
    training_options recording = options_in(nullptr);
    recording.before = [&](const instruction& i) { programs[static_cast<std::size_t>(i.stage)].push_back(i); };
    trainer<tied_net<float>, adam>(o, adam{}, recording).step(plain.take(0, 11));
  }
  trainer<tied_net<float>, adam> disturbed(o, adam{}, how);
  int steps = 0;
  std::vector<instruction> actions;
  for (const auto& program : programs) actions.insert(actions.end(), program.begin(), program.end());
  for (const instruction& at : actions) {
    CAPTURE(at.stage);
    CAPTURE(at.micro_batch);
    CAPTURE(name_of(at.kind));
    bool reached = false;
    disturbance = [&](const instruction& i) {
      if (!(i == at)) return;
      reached = true;
      throw std::runtime_error("thrown here");
    };
    const batch data = plain.take(steps % 20, 11);
    const std::uint64_t before = state_of(disturbed);
    const error cause = failure_of(disturbed, data);
    disturbance = {};
    CHECK(cause.wrong() == "thrown here");
    CHECK(cause.where().rank == o.chosen_schedule().worker_of(o.stages, at.stage));
    CHECK(cause.where().stage == at.stage);
    CHECK(cause.where().micro_batch == at.micro_batch);
    CHECK(cause.where().action == name_of(at.kind));
    CHECK(cause.where().step == steps);
    CHECK(reached == (the_job().rank() == cause.where().rank));
    CHECK(state_of(disturbed) == before);
    CHECK(disturbed.step(data).loss == twin.step(data).loss);
    ++steps;
  }
  CHECK(steps > 3 * M);
  CHECK(state_of(disturbed) == state_of(twin));
}

TEST_CASE("a step allocates nothing by operator new") {
  trainer<tied_net<float>, adam> training(plan_by(schedule_kind::one_f_one_b, the_job().ranks()), adam{},
                                          options_in(&the_job()));
  const batch full = plain.take(0, 16), part = plain.take(3, 9);
  training.step(full);
  const long before = allocations;
  for (int i = 0; i < 3; ++i) training.step(full), training.step(part), training.evaluate(part);
  CHECK(allocations == before);
}

TEST_CASE("a value that is not finite is named on all ranks, with the rank that has the layer") {
  const plan_options o = plan_by(schedule_kind::fill_drain, the_job().ranks());
  trainer<tied_net<float>, adam> training(o, adam{}, options_in(&the_job()));
  samples<float> broken = plain;
  broken.inputs[5] = std::numeric_limits<float>::infinity();
  const error cause = failure_of(training, broken.take(0, 11));
  CHECK(cause.where().layer_index == 0);
  CHECK(cause.where().rank == 0);
  CHECK(std::isfinite(training.step(plain.take(0, 11)).loss));
  CHECK_THROWS_AS(training.evaluate(broken.take(0, 11)), error);
  CHECK(std::isfinite(training.evaluate(plain.take(0, 11)).loss));
}

TEST_CASE("a profile without timed steps is rejected on all ranks, and the processes stay together") {
  const int ranks = the_job().ranks();
  trainer<tied_net<float>, adam> training(plan_by(schedule_kind::fill_drain, ranks), adam{}, options_in(&the_job()));
  CHECK_THROWS_WITH_AS(training.profile_layers(plain.take(0, 11), 2), doctest::Contains("no full micro-batch"), error);
  CHECK_THROWS_WITH_AS(training.layer_profile(), doctest::Contains("no full micro-batch"), error);
  CHECK(training.profile_layers(plain.take(0, 16), 2).layers.size() ==
        static_cast<std::size_t>(layers_of<tied_net<float>>));
  CHECK(std::isfinite(training.step(plain.take(0, 11)).loss));
}

TEST_CASE("processes that make different calls throw at once, with both values, and no parameter is updated") {
  const int ranks = the_job().ranks(), last = ranks - 1;
  const bool differs = the_job().rank() == last;
  const std::string two = "ranks 0 and " + std::to_string(last) + " do not agree on ";
  const plan_options o = plan_by(schedule_kind::one_f_one_b, ranks);
  trainer<tied_net<float>, adam> twin(o, adam{}, options_in(nullptr)), training(o, adam{}, options_in(&the_job()));
  const batch data = plain.take(0, 13);
  const auto said = [&](auto&& own, auto&& others) -> std::string {
    try {
      if (differs) others();
      else own();
    } catch (const error& cause) {
      CHECK(cause.where().rank == last);
      return cause.wrong();
    }
    return "nothing";
  };
  const auto step = [&] { training.step(data, 0.1); };
  std::vector<float> values(12 * 16, 0.5F);
  const auto write = [&] { training.array(0, "weight").set(values); };
  const auto begin = std::chrono::steady_clock::now();
  for (int round = 0; round < 2; ++round) {
    const auto again = [&] {
      CHECK(state_of(training) == state_of(twin));
      CHECK(training.step(data).loss == twin.step(data).loss);
    };
    CHECK(said(step, [&] { training.step(plain.take(0, 9), 0.1); }) == two + "the samples of the call: 13 and 9");
    again();
    CHECK(said(step, [&] { training.step(plain.take(0, 1), 0.1); }) == two + "the samples of the call: 13 and 1");
    CHECK(said(step, [&] { training.step(data, 0.2); }) ==
          two + "the learning rate: 0.10000000000000001 and 0.20000000000000001");
    CHECK(said(step, [&] { training.step(plain.take(5, 13), 0.1); }) == two + "the batch: its first samples differ");
    CHECK(said(step, [&] { training.evaluate(data); }) == two + "the call: step and evaluate");
    CHECK(said([&] { training.evaluate(data); }, step) == two + "the call: evaluate and step");
    CHECK(said(step, [&] { training.accumulate(data); }) == two + "the call: step and accumulate");
    again();
    CHECK(said(step, [&] { training.predict(data); }) == two + "the call: step and predict");
    CHECK(said(step, [&] { training.parameter_hash(); }) == two + "the call: step and read");
    CHECK(said([&] { training.parameter_hash(); }, step) == two + "the call: read and step");
    CHECK(said([&] { training.freeze(1); }, write) == two + "the call: freeze and write");
    CHECK(said([&] { training.freeze(0); }, [&] { training.freeze(1); }) == two + "the layer: 0 and 1");
    values[3] = differs ? 0.25F : 0.5F;
    CHECK(said(write, write) == two + "the values");
    CHECK(said(step, [&] {
            training.step(plain.take(0, 17), 0.1);
          }).starts_with("the batch has 17 samples, but the plan holds 16"));
    CHECK(said(step, [&] { training.step(data, std::numeric_limits<double>::infinity()); }) ==
          "the learning rate is inf");
    again();
  }
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(20));  // no wait lasted until its deadline
}

TEST_CASE(
    "a process that leaves before the training begins is named, with its cause if it has one, and one process prints "
    "it") {
  const int last = the_job().ranks() - 1;
  for (const bool has_cause : {false, true}) {
    const auto begin = std::chrono::steady_clock::now();
    mpi::job job(std::getenv("GPIPE_TEST_HOSTS") == nullptr);
    if (job.rank() == last) {
      if (has_cause) CHECK(!job.leave(error("there is no data", "provide some")));
      continue;
    }
    try {
      trainer<tied_net<float>, adam> training(plan_by(schedule_kind::fill_drain, job.ranks()), adam{},
                                              options_in(&job));
      FAIL_CHECK("a job without its last process");
    } catch (const error& cause) {
      CHECK(cause.where().rank == last);
      CHECK(cause.wrong().find(has_cause ? "there is no data" : "left the job before the training began") !=
            std::string::npos);
      CHECK(job.leave(cause) == (job.rank() == 0));
    }
    CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(5));
  }
}

TEST_CASE("processes that do not fit the plan, or have another plan, are rejected") {
  const auto refusal = [&](const plan_options& o, const training_options& how) -> std::string {
    try {
      trainer<tied_net<float>, adam> training(o, adam{}, how);
      return "";
    } catch (const error& cause) {
      return cause.wrong();
    }
  };
  const int ranks = the_job().ranks(), last = ranks - 1;
  const bool differs = the_job().rank() == last;
  plan_options o = plan_by(schedule_kind::fill_drain, ranks);
  training_options how = options_in(&the_job());
  CHECK(refusal(o, how) == "");
  const std::string two = "ranks 0 and " + std::to_string(last) + " do not agree on ";
  const auto apart = [&](auto& of, auto member, auto value) {
    const auto own = of.*member;
    if (differs) of.*member = value;
    std::string found = refusal(o, how);
    of.*member = own;
    return found;
  };
  CHECK(apart(how, &training_options::seed, 6u) == two + "seed: 5 and 6");
  CHECK(apart(how, &training_options::trace_events, 100u) == two + "trace_events: 0 and 100");
  CHECK(apart(how, &training_options::digest_calls, 2u) == two + "digest_calls: 0 and 2");
  CHECK(apart(how, &training_options::groups, std::vector{no_decay_for_biases_and_norms()}) == two + "groups");
  CHECK(apart(how, &training_options::average_weights, 0.5).starts_with(two + "average_weights: 0 and "));
  CHECK(apart(how, &training_options::layer_times, true) == two + "layer_times: 0 and 1");
  CHECK(apart(o, &plan_options::schedule, schedule_kind::one_f_one_b) == two + "schedule: fill-drain and 1F1B");
  CHECK(apart(o, &plan_options::micro_batches, 5) == two + "micro_batches: 4 and 5");
  CHECK(apart(o, &plan_options::micro_batch_size, 6) == two + "micro_batch_size: 4 and 6");
  CHECK(apart(o, &plan_options::recompute, recompute_mode::always) == two + "recompute: as-needed and always");
  CHECK(apart(o, &plan_options::stages, ranks + 1).starts_with(two + "stages: "));
  std::vector<int> other{2, 5, 7};
  other.resize(static_cast<std::size_t>(last));
  if (differs) how.cut = other;
  CHECK(refusal(o, how) == two + "the cut");
  how.cut = {};
  how.link_bytes_per_second = 1000;
  CHECK(refusal(o, how) == "links between processes are not emulated");
  how.link_bytes_per_second = 0;
  o.stages = ranks - 1;
  CHECK(refusal(o, how) == "the job has " + std::to_string(ranks) + " processes, and the plan " +
                               std::to_string(o.stages) + (o.stages == 1 ? " worker" : " workers"));
}
