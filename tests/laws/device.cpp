#include <doctest/doctest.h>

#include <atomic>
#include <bit>
#include <chrono>
#include <cmath>
#include <csetjmp>
#include <csignal>
#include <functional>
#include <limits>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gpipe/record/breakdown.hpp>

#include "support/instances.hpp"
#include "support/nets.hpp"
#include "support/queued_device.hpp"
#include "support/threaded_job.hpp"

// The law of gpipe/device/contract/device_concept.hpp, over every model that runs here; and the laws of trainings over a
// device whose operations happen later, in memory that the host cannot touch.

using namespace laws;

namespace {

/// Two contexts with an arena, n numbers long.
template <class Device>
struct bench {
  static constexpr std::size_t n = 1000;
  typename Device::context first = Device::make_context(0), second = Device::make_context(1);
  typename Device::arena memory = Device::make_arena(first, 3 * n * sizeof(float), std::byte{0xff});
  float* at(int part) { return reinterpret_cast<float*>(memory.data()) + static_cast<std::size_t>(part) * n; }

  bench() { first.finish(); }
  ~bench() { first.finish(), second.finish(); }

  static std::byte* bytes(float* of) { return reinterpret_cast<std::byte*>(of); }
  static void upload(const auto& c, std::vector<float>& from, float* into) {
    c.upload(static_cast<std::ptrdiff_t>(from.size() * sizeof(float)), bytes(from.data()), bytes(into));
  }
  static void download(const auto& c, float* from, std::vector<float>& into) {
    c.download(static_cast<std::ptrdiff_t>(into.size() * sizeof(float)), bytes(from), bytes(into.data()));
  }
};

struct add_one {
  float* x;
  GPIPE_HOST_DEVICE void operator()(std::ptrdiff_t i) const { x[i] += 1; }
};

template <class Device, class Call>
void in_every_mood(Call&& call) {
  for (const unsigned lazy : {0u, 1u, 2u, ~0u}) {
    if (std::is_same_v<Device, host_device> && lazy > 0) return;
    CAPTURE(lazy);
    queued::lazy = lazy;
    call();
  }
}

}  // namespace

TEST_CASE_TEMPLATE("what is asked of a context happens in order, and is there after finish", Device, host_device,
                   queued::device) {
  in_every_mood<Device>([] {
    bench<Device> on;
    std::vector<float> from(on.n, 1.5F), into(on.n), untouched(on.n);
    on.download(on.first, on.at(1), untouched);
    on.upload(on.first, from, on.at(0));
    for (int i = 0; i < 100; ++i) on.first.each(on.n, add_one{on.at(0)});
    on.first.copy(on.n, static_cast<const float*>(on.at(0)), on.at(1));
    on.first.each(on.n, add_one{on.at(0)});
    on.download(on.first, on.at(1), into);
    on.first.finish();
    CHECK(into == std::vector<float>(on.n, 101.5F));
    CHECK(std::bit_cast<std::uint32_t>(untouched[0]) == 0xffffffffu);
  });
}

TEST_CASE_TEMPLATE("a mark orders two contexts, as it was marked last, and none is no wait", Device, host_device,
                   queued::device) {
  in_every_mood<Device>([] {
    bench<Device> on;
    typename Device::marker there{}, back{};
    on.first.await(back);  // never marked
    std::vector<float> zeros(on.n), into(on.n);
    on.upload(on.first, zeros, on.at(0));
    for (int i = 0; i < 50; ++i) {  // to and fro, by two markers that are marked again and again
      on.first.each(on.n, add_one{on.at(0)});
      on.first.mark(there);
      on.second.await(there);
      on.second.each(on.n, add_one{on.at(0)});
      on.second.mark(back);
      on.first.await(back);
    }
    on.download(on.first, on.at(0), into);
    on.first.finish();
    CHECK(into == std::vector<float>(on.n, 100));
  });
}

TEST_CASE("between two moments of a context lies what it was asked for between them, and no more") {
  in_every_mood<queued::device>([] {
    bench<queued::device> on;
    queued::moment before, after, end;
    const auto dawdle = [](std::ptrdiff_t) { std::this_thread::sleep_for(std::chrono::milliseconds(20)); };
    on.first.each(1, dawdle);
    on.first.note(before);
    on.first.each(1, dawdle);
    on.first.note(after);
    on.first.note(end);
    on.first.each(1, dawdle);
    on.first.finish();
    CHECK(before.ns_until(after) >= 20'000'000);
    CHECK(after.ns_until(end) < 20'000'000);
  });
}

TEST_CASE("what fails later is told by finish, with whose it was, and then the context is as new") {
  in_every_mood<queued::device>([] {
    bench<queued::device> on;
    std::vector<float> zeros(on.n), into(on.n);
    on.upload(on.first, zeros, on.at(0));
    on.first.asks({"this layer", 3, 1, 2});
    on.first.each(1, [](std::ptrdiff_t) { throw std::runtime_error("blown"); });
    on.first.asks({"the next", 4, 1, 2});
    on.first.each(on.n, add_one{on.at(0)});
    CHECK_THROWS_WITH_AS(on.first.finish(), "layer 3 this layer, stage 1, micro-batch 2: blown", error);
    on.first.each(on.n, add_one{on.at(0)});
    on.download(on.first, on.at(0), into);
    on.first.finish();
    CHECK(into == std::vector<float>(on.n, 1));
  });
}

#ifndef TESTS_THREAD_SANITIZED
namespace {

sigjmp_buf out_of_there;

bool is_caught(volatile float* there, bool writes) {
  if (sigsetjmp(out_of_there, 1) != 0) return true;
  if (writes) *there = 2;
  else static_cast<void>(*there);
  return false;
}

}  // namespace

TEST_CASE("a host that reads or writes the memory of the queued device is caught") {
  queued::lazy = ~0u;
  bench<queued::device> on;
  on.first.fill(1, 1.0F, on.at(0));
  struct sigaction caught {
  }, before{};
  caught.sa_handler = [](int) { siglongjmp(out_of_there, 1); };
  sigaction(SIGSEGV, &caught, &before);
  const bool read = is_caught(on.at(0), false), written = is_caught(on.at(0), true);
  sigaction(SIGSEGV, &before, nullptr);
  CHECK(read);
  CHECK(written);
}

TEST_CASE("without a mark, of two contexts one reads what the other has not written yet") {
  queued::lazy = 1;
  bench<queued::device> on;
  std::vector<float> zeros(on.n), into(on.n);
  on.upload(on.first, zeros, on.at(0));
  on.download(on.second, on.at(0), into);
  on.second.finish();
  CHECK(std::isnan(into[0]));
  on.first.finish();
}
#endif

namespace {

using bits = std::vector<std::uint64_t>;

void add(bits& to, const outcome& found) {
  for (const double x : {found.loss, found.weight, found.correct, found.norm})
    to.push_back(std::bit_cast<std::uint64_t>(x));
}
void add(bits& to, const sample_rows& rows, precision in) {
  for (int t = 0; t < rows.tensors(); ++t) {
    hash sum;
    if (rows.wants(t)) {
      const auto all = in == precision::bf16 ? std::as_bytes(rows.all<bf16>(t)) : std::as_bytes(rows.all(t));
      sum.add(all.data(), all.size());
    }
    to.push_back(sum.value());
  }
}

/// 14 slots: a value that three slots read, two of them far away, parameters that three slots use, and averages.
struct net : model<input<float, 12>, linear<16>, stash<"x">, tied<"w", linear<16>>, dropout<25>, gelu, batch_norm<>,
                   pop<"x">, gpipe::add, tied<"w", linear<16>>, residual<tied<"w", linear<16>>, relu>, pop<"x">,
                   gpipe::add, layer_norm, linear<7>, softmax_cross_entropy> {};

/// Two steps in a row, calls that are accumulated, an evaluation, predictions; with a slot that is frozen, and one that
/// is watched.
template <class Device>
std::pair<bits, digest> train(const plan_options& options, bool hashed, bool graph = false) {
  const samples<float> data(19, 12, 1);
  training_options how;
  how.seed = 11;
  how.clip = 0.1;
  how.arena_fill = std::byte{0xff};
  how.canary = true;
  how.digest_calls = hashed ? 5 : 0;
  how.graph = graph;
  trainer<in_both<net>, adam, Device> training(options, adam{.learning_rate = 0.05}, how);
  bits told;
  training.watch(4);
  const auto look = [&] {
    told.push_back(gradients_of(training));
    told.push_back(state_of(training));
    add(told, training.activation(4), options.in);
    add(told, training.activation_gradient(4), options.in);
  };
  add(told, training.step(data.take(0, 13)));
  add(told, training.step(data.take(3, 13)));
  look();
  add(told, training.evaluate(data.take(0, 9)));
  training.freeze(1);
  for (int first = 13; first < 17; first += 2) add(told, training.accumulate(data.take(first, 2)));
  look();
  add(told, training.step(data.take(17, 2)));
  look();
  add(told, training.predict(dataset{}.with("inputs", 12, data.inputs)), options.in);
  auto bias = training.parameter(0, "bias");
  for (float& x : bias) x += 1;
  training.template set_parameter<float>(0, "bias", bias);
  add(told, training.evaluate(data.take(0, 9)));
  told.push_back(training.parameter_hash());
  return {told, training.digest()};
}

/// What is left of a training at which nobody looks: then kernels may take several micro-batches at once.
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

TEST_CASE("on a device that works later parameter gradients are made together, too") {
  plan_options options{.micro_batches = 4, .micro_batch_size = 4};
  const auto expected = learned<host_device>(options);
  options.recompute = recompute_mode::never;
  options.coalesce = 3;
  for (const int stages : {1, 3})
    for (const unsigned lazy : {0u, 5u, ~0u}) {
      options.stages = stages;
      queued::lazy = lazy;
      for (const bool graph : {false, true}) {
        options.workers = graph ? 1 : 0;
        CAPTURE(stages);
        CAPTURE(lazy);
        CAPTURE(graph);
        CHECK(learned<queued::device>(options, graph) == expected);
      }
    }
}

TEST_CASE("on a device that works later, in bf16: the same bits as on the host") {
  plan_options options{.micro_batches = 4, .micro_batch_size = 4, .in = precision::bf16};
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

TEST_CASE("on a device that works later: the same bits as on the host") {
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
                     // Several stages of one worker, with a queue each.
                     {schedule_kind::fill_drain, 4, 1, recompute_mode::always, ~0u},
                     {schedule_kind::one_f_one_b, 4, 1, recompute_mode::except_last, 6},
                     {schedule_kind::one_f_one_b, 4, 2, recompute_mode::always, 9}};
  for (const auto& c : cases) {
    options.schedule = c.schedule, options.stages = c.stages, options.workers = c.workers;
    options.recompute = c.recompute;
    queued::lazy = c.lazy;
    CAPTURE(name(c.schedule));
    CAPTURE(c.stages);
    CAPTURE(c.workers);
    CAPTURE(c.lazy);
    CHECK(train<queued::device>(options, false).first == expected.first);
  }
  const auto hashed = train<queued::device>(options, true);
  CHECK(hashed.first == expected.first);
  CHECK(hashed.second.calls() == 5);
  CHECK_FALSE(first_difference(expected.second, hashed.second));

  options = {.stages = 2, .micro_batches = 2, .micro_batch_size = 4, .replicas = 2};
  const bits of_two = train<host_device>(options, false).first;
  for (const unsigned lazy : {0u, 1u, 2u, ~0u}) {
    queued::lazy = lazy;
    CAPTURE(lazy);
    CHECK(train<queued::device>(options, false).first == of_two);
  }
}

namespace {

struct without_dropout : model<input<float, 12>, linear<16>, tied<"w", linear<16>>, gelu, batch_norm<>,
                               tied<"w", linear<16>>, linear<7>, softmax_cross_entropy> {};

}  // namespace

namespace {

/// y = x, and its device takes 5 ms for that, however soon it was asked.
struct slow {
  template <class In>
  struct on;
  template <class T, int N>
  struct on<tensor<T, N>> {
    using output = tensor<T, N>;
    struct hold {
      const T* in;
      T* out;
      void operator()(std::ptrdiff_t i) const {
        if (i == 0) std::this_thread::sleep_for(std::chrono::milliseconds(5));
        out[i] = in[i];
      }
    };
    static void forward(const auto& c, const auto& a) { c.each(a.samples() * N, hold{a.in(), a.out()}); }
    static void backward_input(const auto& c, const auto& a) {
      c.each(a.samples() * N, hold{a.out_gradient(), a.in_gradient()});
    }
  };
};
struct slow_net : model<input<float, 8>, linear<8>, slow, linear<7>, softmax_cross_entropy> {};

}  // namespace

TEST_CASE("what a device takes is in reports, traces and measured costs, not what the asking takes") {
  queued::lazy = 0;
  const samples<float> data(8, 8, 1);
  training_options how;
  how.trace_events = 1000;
  how.cut = {2};
  const plan_options options{.stages = 2, .micro_batches = 4, .micro_batch_size = 2, .recompute = recompute_mode::never};
  for (const int workers : {1, 2}) {
    CAPTURE(workers);
    plan_options o = options;
    o.workers = workers;
    trainer<slow_net, sgd, queued::device> training(o, sgd{.learning_rate = 0.1}, how);
    training.step(data.all());
    const auto& first = training.report()[0];
    CHECK(first.busy(act::forward) >= 4 * 5'000'000);
    CHECK(first.busy(act::backward) + first.busy(act::backward_input) >= 4 * 5'000'000);
    CHECK(first.busy() <= first.step_ns);
    const breakdown parts = breakdown_of(training.report());
    CHECK(parts.total() == workers * first.step_ns);
    CHECK(parts.bubble >= 0);
    if (workers == 2) CHECK(training.report()[1].wait_ns >= 5'000'000);  // for the first micro-batch
    int forwards = 0;
    for (const recorder& of : training.trace())
      for (const auto& e : of.events()) {
        CHECK(e.begin_ns <= e.end_ns);
        if (e.kind != act::forward || e.stage != 0) continue;
        ++forwards;
        CHECK(e.end_ns - e.begin_ns >= 5'000'000);
      }
    CHECK(forwards == 4);
    const auto costs = training.measure(data.all());
    CHECK(costs.view().layers[1].forward_ns >= 5'000'000);
  }
}

TEST_CASE("a step that is written down and launched: the same bits, with batches, rates and weights of its own") {
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
      how.clip = 0.1;
      how.arena_fill = std::byte{0xff};
      trainer<without_dropout, adam, queued::device> training(options, adam{.learning_rate = 0.01}, how);
      how.graph = false;
      trainer<without_dropout, adam> twin(options, adam{.learning_rate = 0.01}, how);
      queued::graph::written = queued::graph::launches = 0;
      for (int i = 0; i < 4; ++i) {
        const batch next = data.take(13 * i, 13);
        CHECK(training.step(next, 0.01 + i * 0.02).loss == twin.step(next, 0.01 + i * 0.02).loss);
        CHECK(training.evaluate(next).loss == twin.evaluate(next).loss);
      }
      CHECK(queued::graph::written == stages);
      CHECK(queued::graph::launches == 4);
      // What differs is written anew.
      const auto same_step = [&](const batch& next) {
        CHECK(training.step(next).loss == twin.step(next).loss);
        CHECK(state_of(training) == state_of(twin));
        return queued::graph::written.exchange(0) == stages;
      };
      queued::graph::written = 0;
      CHECK(same_step(data.take(0, 9)));
      CHECK_FALSE(same_step(data.take(3, 9)));
      training.freeze(2), twin.freeze(2);
      CHECK(same_step(data.take(3, 9)));
      batch unweighted(9);
      unweighted.with("inputs", std::span(data.inputs).first(9 * 12)).with("labels", std::span(data.labels).first(9));
      CHECK(same_step(unweighted));
      training.accumulate(unweighted), twin.accumulate(unweighted);
      CHECK(same_step(unweighted));
      // A step that fails, when it was launched, and one that is replayed to say why.
      auto bad = data;
      bad.inputs[5] = std::numeric_limits<float>::infinity();
      CHECK(same_step(data.take(3, 9)));
      CHECK_THROWS_WITH_AS(training.step(bad.take(0, 9)),
                           doctest::Contains("the field \"inputs\" of the data is not finite"), error);
      CHECK_FALSE(same_step(data.take(5, 9)));
    }
}

TEST_CASE("a graph that nobody can make is refused") {
  const auto refused = [](auto device, plan_options options, const char* why) {
    training_options how;
    how.graph = true;
    CHECK_THROWS_WITH_AS((trainer<without_dropout, adam, decltype(device)>(options, adam{}, how)),
                         doctest::Contains(why), error);
  };
  refused(host_device{}, {}, "the device has no graphs");
  refused(queued::device{}, {.stages = 2, .micro_batches = 2}, "a graph is of one worker, and the plan has 2");
}

namespace {

/// Where an operation of `brittle` throws, when the device comes to it.
struct {
  std::atomic<int> slot{-1}, first_sample{0};
  std::atomic<bool> backward{false};
  std::atomic<bool> anywhere{false};
} trap;

/// y = x w; its operations may throw, later.
struct brittle {
  template <class In>
  struct on;
  template <class T, int N>
  struct on<tensor<T, N>> {
    using output = tensor<T, N>;
    static constexpr parameter parameters[] = {{"weight", {N}, initialiser::uniform(1)}};
    static constexpr keep keeps{.input = true};

    struct product {
      const T *in, *weight;
      T* out;
      bool throws;
      void operator()(std::ptrdiff_t i) const {
        if ((throws || trap.anywhere) && i == 1) throw std::runtime_error("blown");
        out[i] = in[i] * weight[i % N];
      }
    };
    struct add_product {
      const T *in, *gradient;
      int samples;
      T* into;
      void operator()(std::ptrdiff_t j) const {
        for (std::ptrdiff_t i = j; i < samples * N; i += N) into[j] += in[i] * gradient[i];
      }
    };
    static bool blows(const auto& a, bool backward) {
      return trap.slot >= 0 && trap.slot == static_cast<int>(a.random().slot) && trap.backward == backward &&
             trap.first_sample == static_cast<int>(a.random().first_sample);
    }
    static void forward(const auto& c, const auto& a) {
      c.each(a.samples() * N, product{a.in(), a.template parameter<0>(), a.out(), blows(a, false)});
    }
    static void backward_input(const auto& c, const auto& a) {
      c.each(a.samples() * N,
             product{a.out_gradient(), a.template parameter<0>(), a.in_gradient(), blows(a, true)});
    }
    static void backward_parameters(const auto& c, const auto& a) {
      c.each(N, add_product{a.in(), a.out_gradient(), a.samples(), a.template gradient<0>()});
    }
  };
};

struct fragile : model<input<float, 12>, brittle, brittle, batch_norm<>, brittle, linear<7>, softmax_cross_entropy> {};

}  // namespace

TEST_CASE("what fails on a device that works later fails the step, named, changes nothing, and the next step works") {
  const samples<float> data(40, 12, 1);
  for (const int stages : {1, 3})
    for (const unsigned lazy : {0u, 2u, ~0u}) {
      CAPTURE(stages);
      CAPTURE(lazy);
      queued::lazy = lazy;
      const plan_options options{.stages = stages, .micro_batches = 4, .micro_batch_size = 3};
      training_options how;
      how.arena_fill = std::byte{0xff};
      std::function<void(const instruction&)> disturbance;
      how.before = [&](const instruction& i) {
        if (disturbance) disturbance(i);
      };
      trainer<fragile, adam, queued::device> training(options, adam{}, how);
      trainer<fragile, adam> twin(options, adam{});
      int first = 0;
      const auto recovers = [&] {
        trap.slot = -1, disturbance = {};
        const batch next = data.take(first++, 11);
        CHECK(training.step(next).loss == twin.step(next).loss);
        CHECK(state_of(training) == state_of(twin));
      };
      const auto failure = [&](const batch& with) {
        const std::uint64_t before = state_of(training);
        error found("no failure", "");
        try {
          training.step(with);
        } catch (const error& cause) {
          found = cause;
        }
        CHECK(state_of(training) == before);
        return found;
      };
      recovers();
      for (const int slot : {1, 3})
        for (const bool backward : {false, true}) {
          CAPTURE(slot);
          CAPTURE(backward);
          trap.slot = slot, trap.backward = backward, trap.first_sample = 3;
          const error found = failure(data.take(0, 11));
          CHECK(found.wrong() == "blown");
          CHECK(found.where().slot == slot);
          CHECK(found.where().layer == type_name<brittle>);
          CHECK(found.where().stage == training.plan().cut().stage_of(slot));
          CHECK(found.where().micro_batch == 1);
          CHECK(found.where().step == first);
          recovers();
        }
      // The worker itself throws, with much under way.
      for (const act where : {act::forward, act::backward, act::reduce, act::update}) {
        CAPTURE(name(where));
        disturbance = [&](const instruction& i) {
          const bool there = i.kind == where || (where == act::backward && i.kind == act::backward_input);
          if (there && i.stage == stages - 1 && (i.micro_batch == 1 || i.micro_batch < 0))
            throw std::runtime_error("thrown here");
        };
        CHECK(failure(data.take(0, 11)).wrong() == "thrown here");
        recovers();
      }
      auto bad = data;
      bad.inputs[12 * 7] = std::numeric_limits<float>::quiet_NaN();
      CHECK(failure(bad.take(0, 11)).wrong() == "the field \"inputs\" of the data is not finite");
      recovers();
      CHECK_THROWS_WITH_AS(training.evaluate(bad.take(0, 11)),
                           doctest::Contains("the field \"inputs\" of the data is not finite"), error);
      recovers();
    }
}

TEST_CASE("processes, which carry the host's memory, are refused another device") {
  threaded::job job(1);
  job.run([](peers& alone) {
    training_options how;
    how.peers = &alone;
    CHECK_THROWS_WITH_AS((trainer<fragile, adam, queued::device>{plan_options{}, adam{}, how}),
                         doctest::Contains("processes carry the memory of processors"), error);
  });
}

TEST_CASE("what fails in a step that is written down fails it as well, and is not launched again") {
  const samples<float> data(40, 12, 1);
  queued::lazy = 2;
  trap.slot = -1;
  const plan_options options{.stages = 3, .micro_batches = 4, .micro_batch_size = 3, .workers = 1};
  training_options how;
  how.graph = true;
  trainer<fragile, adam, queued::device> training(options, adam{}, how);
  trainer<fragile, adam> twin(options, adam{});
  const auto steps_alike = [&](int first) {
    queued::graph::written = 0;
    const batch next = data.take(first, 11);
    CHECK(training.step(next).loss == twin.step(next).loss);
    CHECK(state_of(training) == state_of(twin));
    return queued::graph::written > 0;
  };
  CHECK(steps_alike(0));
  CHECK_FALSE(steps_alike(1));
  const std::uint64_t before = state_of(training);
  trap.anywhere = true;
  CHECK_THROWS_WITH_AS(training.step(data.take(0, 11)), doctest::Contains("blown"), error);
  trap.anywhere = false;
  CHECK(state_of(training) == before);
  CHECK(steps_alike(2));
  CHECK_FALSE(steps_alike(3));
  // One that is written and fails, by an operation that is in it.
  training.freeze(4), twin.freeze(4);
  trap.slot = 1, trap.backward = false, trap.first_sample = 3;
  CHECK_THROWS_WITH_AS(training.step(data.take(0, 11)),
                       doctest::Contains("brittle, stage 0, micro-batch 1, reduce, step 4: blown"), error);
  trap.slot = -1;
  CHECK(steps_alike(4));
  // An evaluation that goes well says nothing of it.
  training.freeze(1), twin.freeze(1);
  trap.slot = 1;
  CHECK_THROWS_AS(training.step(data.take(0, 11)), error);
  trap.slot = -1;
  CHECK(training.evaluate(data.take(0, 11)).loss == twin.evaluate(data.take(0, 11)).loss);
  CHECK(steps_alike(5));
}
