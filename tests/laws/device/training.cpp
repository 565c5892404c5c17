#include <doctest/doctest.h>

#include <bit>
#include <chrono>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gpipe/runtime/executor.hpp>
#include <gpipe/tools/report/breakdown.hpp>

#include "support/nets.hpp"
#include "support/queued_device.hpp"

// Trainings on a device whose operations happen later, in memory that the host cannot touch.

using namespace laws;

namespace {

using bits = std::vector<std::uint64_t>;

void add(bits& to, const step_result& found) {
  for (const double x : {found.loss, found.weight, found.correct, found.norm})
    to.push_back(std::bit_cast<std::uint64_t>(x));
}
void add(bits& to, const tensor_rows& rows, precision in) {
  for (int t = 0; t < rows.tensors(); ++t) {
    gpipe::detail::hash sum;
    if (rows.has_rows(t)) {
      const auto rows_of = in == precision::bf16 ? std::as_bytes(rows.all<bf16>(t)) : std::as_bytes(rows.all(t));
      sum.add(rows_of.data(), rows_of.size());
    }
    to.push_back(sum.value());
  }
}

/// 14 layers: a value that three layers read, two of them far away, a weight that three layers share, two of them with
/// its bias, and averages.
struct net : model<input<float, 12>, linear<16>, stash<"x">, tied<"w", linear<16>>, dropout<25>, gelu, batch_norm<>,
                   pop<"x">, gpipe::add, tied<"w", linear<16>>, residual<tied<"w", linear<16>, "weight">, relu>,
                   pop<"x">, gpipe::add, layer_norm, linear<7>, softmax_cross_entropy> {};

/// Trains two steps in a row, accumulates calls, evaluates and predicts, with a frozen layer and a watched layer.
template <class Device>
std::pair<bits, digest> train(const plan_options& options, bool hashed, bool graph = false) {
  const samples<float> data(19, 12, 1);
  training_options how;
  how.seed = 11;
  how.max_grad_norm = 0.1;
  how.arena_fill = std::byte{0xff};
  how.canary = true;
  how.digest_calls = hashed ? 5 : 0;
  how.graph = graph;
  trainer<both_precisions<net>, adam, Device> training(options, adam{.learning_rate = 0.05}, how);
  bits all;
  training.watch(4);
  const auto record = [&] {
    all.push_back(gradients_of(training));
    all.push_back(state_of(training));
    add(all, training.activation(4), options.precision);
    add(all, training.activation_gradient(4), options.precision);
  };
  add(all, training.step(data.take(0, 13)));
  add(all, training.step(data.take(3, 13)));
  record();
  add(all, training.evaluate(data.take(0, 9)));
  training.freeze(1);
  for (int first = 13; first < 17; first += 2) add(all, training.accumulate(data.take(first, 2)));
  record();
  add(all, training.step(data.take(17, 2)));
  record();
  add(all, training.predict(dataset{}.with("inputs", 12, data.inputs)), options.precision);
  auto bias = training.parameter(0, "bias");
  for (float& x : bias) x += 1;
  training.array(0, "bias").set(bias);
  add(all, training.evaluate(data.take(0, 9)));
  all.push_back(training.parameter_hash());
  return {all, training.digest()};
}

/// The parameters of a training without watched layers: then a kernel may take several micro-batches at once.
template <class Device>
std::uint64_t learned(const plan_options& options, bool graph = false) {
  const samples<float> data(19, 12, 1);
  training_options how;
  how.graph = graph;
  trainer<net, adam, Device> training(options, adam{.learning_rate = 0.05}, how);
  for (const int size : {13, 16, 2, 13}) training.step(data.take(0, size));
  return training.parameter_hash();
}

}  // namespace

TEST_CASE("a queued device computes parameter gradients of several micro-batches together") {
  plan_options options{.micro_batches = 4, .micro_batch_size = 4};
  const auto expected = learned<host_device>(options);
  options.recompute = recompute_mode::never;
  options.group_gradients = 3;
  for (const int stages : {1, 3})
    for (const unsigned lazy : {0u, 5u, ~0u}) {
      options.stages = stages;
      queued::lazy = lazy;
      for (const bool graph : {false, true}) {
        options.workers = graph && lazy != 5u ? 1 : 0;
        CAPTURE(stages);
        CAPTURE(lazy);
        CAPTURE(graph);
        CHECK(learned<queued::device>(options, graph) == expected);
      }
    }
}

TEST_CASE("a queued device gives the host's bits in bf16") {
  plan_options options{.micro_batches = 4, .micro_batch_size = 4, .precision = precision::bf16};
  const auto expected = train<host_device>(options, false).first;
  for (const int stages : {1, 3}) {
    options.stages = stages;
    queued::lazy = ~0u;
    for (const bool graph : {false, true}) {
      options.workers = graph ? 1 : 0;
      CHECK(train<queued::device>(options, false, graph).first == expected);
    }
  }
}

TEST_CASE("a queued device gives the host's bits") {
  plan_options options{.micro_batches = 4, .micro_batch_size = 4};
  const auto expected = train<host_device>(options, true);
  struct {
    schedule_kind schedule;
    int stages, workers;
    recompute_mode recompute;
    unsigned lazy;
  } const cases[] = {{schedule_kind::fill_drain, 1, 0, recompute_mode::always, 1},
                     {schedule_kind::fill_drain, 3, 0, recompute_mode::except_last, 0},
                     {schedule_kind::fill_drain, 3, 0, recompute_mode::always, ~0u},
                     {schedule_kind::one_f_one_b, 4, 0, recompute_mode::never, 5},
                     {schedule_kind::one_f_one_b, 4, 0, recompute_mode::always, 10},
                     {schedule_kind::one_f_one_b, 8, 0, recompute_mode::except_last, 0xcc},
                     {schedule_kind::zb_h1, 3, 0, recompute_mode::always, 2},
                     {schedule_kind::zb_v, 4, 0, recompute_mode::never, 3},
                     // Several stages on one worker, each with its own queue.
                     {schedule_kind::fill_drain, 4, 1, recompute_mode::always, ~0u},
                     {schedule_kind::one_f_one_b, 4, 1, recompute_mode::except_last, 6},
                     {schedule_kind::one_f_one_b, 4, 2, recompute_mode::always, 9}};
  for (const auto& c : cases) {
    options.schedule = c.schedule, options.stages = c.stages, options.workers = c.workers;
    options.recompute = c.recompute;
    queued::lazy = c.lazy;
    CAPTURE(name_of(c.schedule));
    CAPTURE(c.stages);
    CAPTURE(c.workers);
    CAPTURE(c.lazy);
    CHECK(train<queued::device>(options, false).first == expected.first);
    CHECK(train<queued::device>(options, false, true).first == expected.first);
  }
  const auto hashed = train<queued::device>(options, true);
  CHECK(hashed.first == expected.first);
  CHECK(hashed.second.calls() == 5);
  CHECK_FALSE(first_difference(expected.second, hashed.second));

  options = {.stages = 2, .micro_batches = 2, .micro_batch_size = 4, .replicas = 2};
  const bits of_two = train<host_device>(options, false).first;
  const plan_options at_once{.stages = 3, .micro_batch_size = 16, .replicas = 2, .shard = shard::gradients};
  const std::uint64_t left = learned<host_device>({.micro_batch_size = 16, .replicas = 2});
  for (const unsigned lazy : {0u, 1u, 2u, 9u, ~0u}) {
    queued::lazy = lazy;
    CAPTURE(lazy);
    for (const shard shares : {shard::none, shard::optimizer_state}) {
      options.shard = shares;
      CHECK(train<queued::device>(options, false).first == of_two);
    }
    CHECK(learned<queued::device>(at_once) == left);
  }
}

TEST_CASE("a queued device predicts with a head in slices as the host does, block after block") {
  const samples<float, std::int32_t> data(9, 37, 37);
  struct words : model<input<std::int32_t, 37>, embedding<7, 8>, token_head<7, slices<3>>> {};
  const auto rows = [&]<class Device>(Device, int stages) {
    trainer<words, adam, Device> training({.stages = stages, .micro_batches = 4, .micro_batch_size = 2}, adam{});
    const tensor_rows found = training.predict(dataset{}.with("inputs", 37, data.inputs));
    return std::vector<float>(found.all().begin(), found.all().end());
  };
  const std::vector<float> expected = rows(host_device{}, 1);
  CHECK(expected.size() == 9 * 37 * 7);
  for (const int stages : {1, 3, 5})
    for (const unsigned lazy : {0u, 1u, 6u, ~0u}) {
      queued::lazy = lazy;
      CAPTURE(stages);
      CAPTURE(lazy);
      CHECK(rows(queued::device{}, stages) == expected);
    }
}

namespace {

struct without_dropout : model<input<float, 12>, linear<16>, tied<"w", linear<16>>, gelu, batch_norm<>,
                               tied<"w", linear<16>>, linear<7>, softmax_cross_entropy> {};

/// y = x. The device takes 5 ms for it, however early it was enqueued.
struct slow {
  template <class In>
  struct on;
  template <class T, int N>
  struct on<tensor<T, N>> {
    using output = tensor<T, N>;
    struct copy {
      const T* in;
      T* out;
      void operator()(std::ptrdiff_t i) const {
        if (i == 0) std::this_thread::sleep_for(std::chrono::milliseconds(5));
        out[i] = in[i];
      }
    };
    static void forward(const auto& c, const auto& a) { c.each(a.samples() * N, copy{a.in(), a.out()}); }
    static void backward_input(const auto& c, const auto& a) {
      c.each(a.samples() * N, copy{a.out_gradient(), a.in_gradient()});
    }
  };
};
struct slow_net : model<input<float, 8>, linear<8>, slow, linear<7>, softmax_cross_entropy> {};

}  // namespace

TEST_CASE("reports, traces and measured costs hold the device's time, not the time to enqueue") {
  queued::lazy = 0;
  const samples<float> data(8, 8, 1);
  training_options how;
  how.trace_events = 1000;
  how.cut = {2};
  const plan_options options{
      .stages = 2, .micro_batches = 4, .micro_batch_size = 2, .recompute = recompute_mode::never};
  for (const int workers : {1, 2}) {
    CAPTURE(workers);
    plan_options o = options;
    o.workers = workers;
    trainer<slow_net, sgd, queued::device> training(o, sgd{.learning_rate = 0.1}, how);
    training.step(data.all());
    const auto& first = training.report()[0];
    CHECK(first.busy(action_kind::forward) >= 4 * 5'000'000);
    CHECK(first.busy(action_kind::backward) + first.busy(action_kind::backward_input) >= 4 * 5'000'000);
    CHECK(first.busy() <= first.step_ns);
    const breakdown parts = breakdown_of(training.report());
    CHECK(parts.total() == workers * first.step_ns);
    CHECK(parts.bubble >= 0);
    if (workers == 2) CHECK(training.report()[1].wait_ns >= 5'000'000);  // for the first micro-batch
    int forwards = 0;
    for (const recorder& of : training.trace())
      for (const auto& e : of.events()) {
        CHECK(e.begin_ns <= e.end_ns);
        if (e.kind != action_kind::forward || e.stage != 0) continue;
        ++forwards;
        CHECK(e.end_ns - e.begin_ns >= 5'000'000);
      }
    CHECK(forwards == 4);
    const auto costs = training.profile_layers(data.all());
    CHECK(costs.view().layers[1].forward_ns >= 5'000'000);
  }
}

TEST_CASE("a captured step gives the same bits, with other batches, rates and weights in each launch") {
  plan_options options{.micro_batches = 4, .micro_batch_size = 4};
  const auto expected = train<host_device>(options, true);
  const samples<float> data(60, 12, 1);
  for (const int stages : {1, 3})
    for (const unsigned lazy : {0u, 2u, ~0u}) {
      CAPTURE(stages);
      CAPTURE(lazy);
      queued::lazy = lazy;
      options.stages = stages, options.workers = 1, options.schedule = schedule_kind::one_f_one_b;
      CHECK(train<queued::device>(options, true, true).first == expected.first);
      CHECK(train<queued::device>(options, false, true).first == expected.first);

      training_options how;
      how.graph = true;
      how.max_grad_norm = 0.1;
      how.arena_fill = std::byte{0xff};
      trainer<without_dropout, adam, queued::device> training(options, adam{.learning_rate = 0.01}, how);
      how.graph = false;
      trainer<without_dropout, adam> twin(options, adam{.learning_rate = 0.01}, how);
      queued::graph::captured = queued::graph::launches = 0;
      for (int i = 0; i < 4; ++i) {
        const batch next = data.take(13 * i, 13);
        CHECK(training.step(next, 0.01 + i * 0.02).loss == twin.step(next, 0.01 + i * 0.02).loss);
        CHECK(training.evaluate(next).loss == twin.evaluate(next).loss);
      }
      CHECK(queued::graph::captured == stages);
      CHECK(queued::graph::launches == 4);
      // A step that differs is captured again.
      const auto same_step = [&](const batch& next) {
        CHECK(training.step(next).loss == twin.step(next).loss);
        CHECK(state_of(training) == state_of(twin));
        return queued::graph::captured.exchange(0) == stages;
      };
      queued::graph::captured = 0;
      CHECK(same_step(data.take(0, 9)));
      CHECK_FALSE(same_step(data.take(3, 9)));
      training.freeze(2), twin.freeze(2);
      CHECK(same_step(data.take(3, 9)));
      batch unweighted(9);
      unweighted.with("inputs", std::span(data.inputs).first(9 * 12)).with("labels", std::span(data.labels).first(9));
      CHECK(same_step(unweighted));
      training.accumulate(unweighted), twin.accumulate(unweighted);
      CHECK(same_step(unweighted));
      // A launched step that fails, and its replay that finds the cause.
      auto bad = data;
      bad.inputs[5] = std::numeric_limits<float>::infinity();
      CHECK(same_step(data.take(3, 9)));
      CHECK_THROWS_WITH_AS(training.step(bad.take(0, 9)),
                           doctest::Contains("the field \"inputs\" of the data is not finite"), error);
      CHECK_FALSE(same_step(data.take(5, 9)));
    }
}

TEST_CASE("several workers launch graphs of their own again, with the bits of a step without a graph") {
  const samples<float> data(70, 12, 1);
  struct {
    schedule_kind schedule;
    int stages, workers;
    recompute_mode recompute;
  } const cases[] = {{schedule_kind::fill_drain, 2, 0, recompute_mode::always},
                     {schedule_kind::one_f_one_b, 4, 0, recompute_mode::never},
                     {schedule_kind::one_f_one_b, 4, 2, recompute_mode::except_last},
                     {schedule_kind::interleaved, 4, 2, recompute_mode::never},
                     {schedule_kind::zb_h1, 3, 0, recompute_mode::always},
                     {schedule_kind::zb_v, 4, 0, recompute_mode::never}};
  for (const auto& c : cases)
    for (const unsigned lazy : {0u, 5u, 6u, 12u, ~0u}) {
      CAPTURE(name_of(c.schedule));
      CAPTURE(c.stages);
      CAPTURE(c.workers);
      CAPTURE(lazy);
      queued::lazy = lazy;
      const plan_options options{.stages = c.stages,
                                 .micro_batches = 4,
                                 .micro_batch_size = 4,
                                 .recompute = c.recompute,
                                 .schedule = c.schedule,
                                 .workers = c.workers};
      training_options how{.max_grad_norm = 0.1, .arena_fill = std::byte{0xff}, .graph = true};
      trainer<without_dropout, adam, queued::device> training(options, adam{.learning_rate = 0.01}, how);
      how.graph = false;
      trainer<without_dropout, adam> twin(options, adam{.learning_rate = 0.01}, how);
      const auto records = [&](const batch& next, double rate) {
        queued::graph::captured = queued::graph::launches = 0;
        CHECK(training.step(next, rate).loss == twin.step(next, rate).loss);
        CHECK(state_of(training) == state_of(twin));
        CHECK(queued::graph::launches > training.plan().workers());
        CHECK(training.evaluate(next).loss == twin.evaluate(next).loss);
        return queued::graph::captured > 0;
      };
      for (int i = 0; i < 4; ++i) CHECK(records(data.take(13 * i, 13), 0.01 + i * 0.02) == (i == 0));
      CHECK(records(data.take(5, 9), 0.01));
      CHECK_FALSE(records(data.take(7, 9), 0.01));
      auto bad = data;
      bad.inputs[5] = std::numeric_limits<float>::infinity();
      const std::uint64_t before = state_of(training);
      CHECK_THROWS_AS(training.step(bad.take(0, 9)), error);
      CHECK(state_of(training) == before);
      CHECK_FALSE(records(data.take(8, 9), 0.01));
    }
}

TEST_CASE("a graph is rejected on a device without graphs and with several replicas") {
  const auto rejects = [](auto device, plan_options options, const char* why) {
    training_options how;
    how.graph = true;
    CHECK_THROWS_WITH_AS((trainer<without_dropout, adam, decltype(device)>(options, adam{}, how)),
                         doctest::Contains(why), error);
  };
  rejects(host_device{}, {}, "the device has no graphs");
  rejects(queued::device{}, {.stages = 2, .micro_batches = 4, .replicas = 2},
          "graph is true, but the plan has 2 replicas");
}
