// compiled: alone
// sanitizers: address

#include <doctest/doctest.h>

#include <cstdlib>
#include <span>
#include <utility>

#include <gpipe/core/descriptions/adafactor.hpp>
#include <gpipe/make_plan.hpp>
#include <gpipe/plan/plan.hpp>
#include <gpipe/tools/testing/emulated_link.hpp>

#include "support/every_allocation.hpp"
#include "support/models.hpp"
#include "support/nets.hpp"
#include "support/touched_memory.hpp"

using namespace laws;

namespace {

template <class Plan>
void equals_the_plan_made_at_run_time() {
  const step_plan made = make_plan(network_of<typename Plan::model>, Plan::options);
  for (int s = 0; s < Plan::S; ++s) {
    CHECK(made.first[static_cast<std::size_t>(s)] == Plan::cut().first[s]);
    for (int kind = 0; kind < memory_kinds; ++kind) CHECK(made.memory(s).bytes[kind] == Plan::memory(s).bytes[kind]);
  }
}

template <int S>
void equals_in_each_mode() {
  using namespace gpipe;
  using net = residual_net<float>;
  equals_the_plan_made_at_run_time<plan<net, stages<S>, micro_batches<3>, micro_batch_size<4>, optimizer<sgd>,
                                        gpipe::recompute<recompute_mode::always>>>();
  equals_the_plan_made_at_run_time<plan<net, stages<S>, micro_batches<3>, micro_batch_size<4>>>();
  equals_the_plan_made_at_run_time<
      plan<net, stages<S>, micro_batches<3>, micro_batch_size<4>, gpipe::recompute<recompute_mode::never>>>();
}

/// A loss with field names too long for a small string.
struct verbose_loss {
  template <class In>
  struct on;
  template <class T, int N>
  struct on<tensor<T, N>> : passing_loss::on<tensor<T, N>> {
    static constexpr field fields[] = {
        {"the class that each of the samples belongs to", 1, dtype::int32, N},
        {"how much each of the samples counts in the loss", 1, dtype_of<compute_type<T>>, 0, true}};
  };
};
struct verbose_net : model<input<float, 12>, linear<12>, halve, cross, join, verbose_loss> {};

}  // namespace

TEST_CASE("a stage uses its predicted memory: all of the arena, and nothing behind it") {
  for (const test_model* model : {&models::residual, &models::skip, &models::pair_double, &models::integer,
                                  &models::token, &models::headed, &models::sliced, &models::broad, &models::attended,
                                  &models::image, &models::broad_image, &models::residual_bf16, &models::skip_bf16})
    touches_what_is_predicted(measured(*model));
  for (const test_model* model : {&models::residual, &models::skip})
    for (const int group : {2, 3}) touches_what_is_predicted(measured(*model), {.group_gradients = group});
  touches_what_is_predicted(measured(models::attended), {.schedule = schedule_kind::zb_h1});
  touches_what_is_predicted(measured(models::attended), {.group_gradients = 2});
}

TEST_CASE("layers that share the memory of packed weights use what is predicted") {
  touches_what_is_predicted(measured(models::image), {.share_packed_weights = true}, {1, 2, 4});
  touches_what_is_predicted(measured(models::tied), {.schedule = schedule_kind::zb_h1, .share_packed_weights = true},
                            {1, 2, 4});
  touches_what_is_predicted(measured(models::attended),
                            {.schedule = schedule_kind::one_f_one_b, .share_packed_weights = true}, {1, 2});
}

TEST_CASE("the digits example uses its predicted memory, as planned and with other schedules") {
  for (const schedule_kind schedule : {schedule_kind::fill_drain, schedule_kind::one_f_one_b, schedule_kind::zb_v})
    for (const recompute_mode mode : {recompute_mode::except_last, recompute_mode::never}) {
      const plan_options options{
          .stages = 4, .micro_batches = 8, .micro_batch_size = 8, .recompute = mode, .schedule = schedule};
      CAPTURE(name_of(schedule));
      for (const auto& lines : measured(models::digits).touched(options, std::byte{0xa5})) {
        CHECK(lines[lines.size() - 2]);  // the highest predicted line
        CHECK(!lines.back());            // the first line behind it
      }
    }
}

TEST_CASE("a stage uses its predicted memory with every schedule") {
  for (const schedule_kind schedule : schedule_kinds)
    if (schedule != schedule_kind::fill_drain && schedule != schedule_kind::forward_only)
      for (const test_model* model : {&models::tied, &models::skip})
        touches_what_is_predicted(measured(*model), {.schedule = schedule});
}

TEST_CASE("a plan predicts the same memory at compile time and at run time") {
  equals_in_each_mode<1>();
  equals_in_each_mode<2>();
  equals_in_each_mode<5>();
}

TEST_CASE("rows and columns of Adafactor, and the average of the weights, are in the predicted memory") {
  touches_what_is_predicted(measured(models::tied, rule::adafactor));
  touches_what_is_predicted(measured(models::residual_double, rule::adafactor_with_momentum));
}

TEST_CASE("replicas that keep shares use what is predicted") {
  const auto touches = [](const measured_trainings& trainings, schedule_kind schedule, int group) {
    for (const int R : {2, 4})
      for (const shard shares : {shard::none, shard::optimizer_state, shard::gradients})
        touches_what_is_predicted(
            trainings, {.schedule = schedule, .replicas = R, .shard = shares, .group_gradients = group}, {1, 3});
  };
  touches(measured(models::tied), schedule_kind::one_f_one_b, 0);
  touches(measured(models::tied), schedule_kind::fill_drain, 3);  // gradients that leave, at three micro-batches
  touches(measured(models::residual, rule::adafactor_with_momentum), schedule_kind::zb_h1, 0);
}

namespace {

/// Layers of a MiB each.
template <int N>
struct equal_net : model<input<float, 512>, repeat<N, linear<512, no_bias>>, softmax_cross_entropy> {};

double bytes_a_parameter(const network& net, const stage_memory& memory) {
  std::int64_t bytes = 0;
  for (const memory_kind kind : {memory_kind::parameters, memory_kind::gradients, memory_kind::moments})
    bytes += memory.of(kind);
  return static_cast<double>(bytes) / static_cast<double>(net.parameters());
}

}  // namespace

TEST_CASE("with Adam in float, four replicas keep 16 bytes a parameter, in shares 10, and 7 if gradients leave") {
  plan_options options{.micro_batch_size = 2, .replicas = 4};
  const auto planned = [&](const network& net) { return bytes_a_parameter(net, make_plan(net, options).memory(0)); };
  CHECK(planned(network_of<equal_net<64>>) == 16);
  options.shard = shard::optimizer_state;
  CHECK(planned(network_of<equal_net<64>>) == 10);
  options.shard = shard::gradients;
  CHECK(planned(network_of<equal_net<64>>) == 7 + 4.0 / 64);  // a window of one layer
  options.micro_batches = 4, options.group_gradients = 1;
  CHECK(planned(network_of<equal_net<64>>) == 10);  // they stay
  options.recompute = recompute_mode::never, options.group_gradients = 4;
  CHECK(planned(network_of<equal_net<64>>) == 7 + 4.0 / 64);
  options.micro_batches = options.group_gradients = 1;
  CHECK(planned(models::equal_layers.net) == 7 + 4.0 / 8);
  const auto lines = measured(models::equal_layers).touched(options, std::byte{0xa5});
  CHECK(lines[0][lines[0].size() - 2]);
  CHECK(!lines[0].back());
  std::ptrdiff_t whole = 8 << 20;  // every line of parameters, gradients and moments
  whole = whole * 15 / 8 / static_cast<std::ptrdiff_t>(gpipe::detail::alignment);
  CHECK(std::count(lines[0].begin(), lines[0].begin() + whole, true) == whole);
}

TEST_CASE("a plan predicts the same shares at compile time and at run time") {
  using net = tied_net<float>;
  equals_the_plan_made_at_run_time<plan<net, stages<2>, replicas<3>, sharded<shard::optimizer_state>>>();
  equals_the_plan_made_at_run_time<plan<net, stages<2>, replicas<3>, sharded<shard::gradients>>>();
  equals_the_plan_made_at_run_time<
      plan<net, stages<3>, micro_batches<4>, replicas<2>, sharded<shard::gradients>, optimizer<adafactor>>>();
  using one = plan<net, stages<2>>;
  using shared = plan<net, stages<2>, sharded<shard::gradients>>;  // of one replica
  for (int kind = 0; kind < memory_kinds; ++kind) CHECK(one::memory(0).bytes[kind] == shared::memory(0).bytes[kind]);
}

#ifdef LAWS_COUNTED
TEST_CASE("a step with shares allocates nothing") {
  for (const shard shares : {shard::optimizer_state, shard::gradients}) {
    const auto training = models::tied.trainer({.stages = 2, .micro_batch_size = 4, .replicas = 2, .shard = shares},
                                               {.average_weights = 0.9});
    const batch b = models::tied.take(0, 8);
    for (int i = 0; i < 3; ++i) {
      const long before = allocations;
      training->step(b);
      training->evaluate(b, weights::averaged);
      CHECK(allocations == before);
    }
  }
}

TEST_CASE("a step with Adafactor, groups and an average of the weights allocates nothing") {
  for (const auto& [stages, replicas] : {std::pair(1, 1), {3, 1}, {2, 2}}) {
    const int S = stages, R = replicas;
    CAPTURE(S);
    CAPTURE(R);
    const auto training = models::tied.trainer(
        {.stages = S, .micro_batches = 3, .micro_batch_size = 3, .replicas = R},
        {.groups = {no_decay_for_biases_and_norms(), {.parameters = {"0.weight"}, .rate_factor = 0.5}},
         .average_weights = 0.9},
        rule::adafactor_with_momentum);
    const batch b = models::tied.take(0, 8);
    const auto counted = [&](auto&& call) {
      const long before = allocations;
      call();
      return allocations - before;
    };
    for (int i = 0; i < 3; ++i) CHECK(counted([&] { training->step(b); }) == 0);
    CHECK(counted([&] { training->evaluate(b, weights::averaged); }) == 0);
    training->freeze(0);
    CHECK(counted([&] { training->step(b); }) == 0);
  }
}

TEST_CASE("a step with attention or convolutions allocates nothing, the first step included") {
  for (const test_model* model : {&models::attended, &models::image})
    for (const int stages : {1, 3}) {
      const auto training = model->trainer({.stages = stages, .micro_batches = 3, .micro_batch_size = 3});
      const batch b = model->take(0, 8);
      for (int i = 0; i < 2; ++i) {
        const long before = allocations;
        training->step(b);
        CHECK(allocations == before);
      }
    }
}

TEST_CASE("a step allocates nothing on any thread, the first step included") {
  const samples<float> data(9, 12, 1);
  for (const auto& [stages, replicas] : {std::pair(1, 1), {2, 1}, {5, 1}, {1, 2}, {2, 3}}) {
    const int S = stages, R = replicas;  // clang 14 cannot capture a structured binding
    CAPTURE(S);
    CAPTURE(R);
    training_options how;
    how.trace_events = 100;
    how.digest_calls = 5;
    how.max_grad_norm = 1;
    how.before = [](const instruction&) {};
    how.layer_times = S > 1;
    how.link_bytes_per_second = S > 2 ? 10'000'000 : 0;
    const plan_options options{.stages = S,
                               .micro_batches = 3,
                               .micro_batch_size = 3,
                               .precision = S == 2 ? precision::bf16 : precision::float32,
                               .replicas = R};
    trainer<both_precisions<verbose_net>, adam> training(options, adam{}, how);
    batch b(8);
    b.with("inputs", std::span(data.inputs).first(8 * 12))
        .with("the class that each of the samples belongs to", std::span(data.labels).first(8))
        .with("how much each of the samples counts in the loss", std::span(data.weights).first(8));
    const auto counted = [&](auto&& call) {
      const long before = allocations;
      call();
      return allocations - before;
    };
    CHECK(counted([&] { training.step(b); }) == 0);
    CHECK(counted([&] { training.step(b); }) == 0);
    CHECK(counted([&] { training.evaluate(b); }) == 0);
    CHECK(counted([&] { training.step(b); }) == 0);
    training.watch(1);
    training.freeze(0);
    long hooked = 0;
    training.on_step([&hooked](const step_result& found, std::uint64_t) { hooked += found.metric("loss") > 0; });
    CHECK(counted([&] { training.accumulate(b); }) == 0);
    CHECK(counted([&] { training.step(b); }) == 0);
    CHECK(hooked == 1);
    CHECK(training.digest().calls() == 5);
    static void* volatile kept;  // keeps the compiler from removing it
    CHECK(counted([&] { kept = std::malloc(1), std::free(kept); }) == 1);
    CHECK(counted([&] { kept = new int, delete static_cast<int*>(kept); }) == 1);
  }
}
#endif
