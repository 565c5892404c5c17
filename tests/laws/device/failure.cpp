#include <doctest/doctest.h>

#include <atomic>
#include <functional>
#include <limits>
#include <stdexcept>
#include <vector>

#include <gpipe/job.hpp>

#include "support/nets.hpp"
#include "support/queued_device.hpp"
#include "support/threaded_job.hpp"

// Failures on a device whose operations happen later.

using namespace laws;

namespace {

/// Says which operation of `brittle` throws when the device runs it.
struct {
  std::atomic<int> layer_index{-1}, first_sample{0};
  std::atomic<bool> backward{false};
  std::atomic<bool> anywhere{false};
} trap;

/// y = x w. Its operations may throw later.
struct brittle {
  template <class In>
  struct on;
  template <class T, int N>
  struct on<tensor<T, N>> {
    using output = tensor<T, N>;
    static constexpr parameter parameters[] = {{"weight", {N}, initializer::uniform(1)}};
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
      return trap.layer_index >= 0 && trap.layer_index == static_cast<int>(a.random().layer_index) &&
             trap.backward == backward && trap.first_sample == static_cast<int>(a.random().first_sample);
    }
    static void forward(const auto& c, const auto& a) {
      c.each(a.samples() * N, product{a.in(), a.template parameter<0>(), a.out(), blows(a, false)});
    }
    static void backward_input(const auto& c, const auto& a) {
      c.each(a.samples() * N, product{a.out_gradient(), a.template parameter<0>(), a.in_gradient(), blows(a, true)});
    }
    static void backward_parameters(const auto& c, const auto& a) {
      c.each(N, add_product{a.in(), a.out_gradient(), a.samples(), a.template gradient<0>()});
    }
  };
};

struct fragile : model<input<float, 12>, brittle, brittle, batch_norm<>, brittle, linear<7>, softmax_cross_entropy> {};

}  // namespace

TEST_CASE("a failure on a queued device fails the step, names the layer and changes nothing; the next step works") {
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
        trap.layer_index = -1, disturbance = {};
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
      for (const int layer : {1, 3})
        for (const bool backward : {false, true}) {
          CAPTURE(layer);
          CAPTURE(backward);
          trap.layer_index = layer, trap.backward = backward, trap.first_sample = 3;
          const error found = failure(data.take(0, 11));
          CHECK(found.wrong() == "blown");
          CHECK(found.where().layer_index == layer);
          CHECK(found.where().layer == gpipe::detail::type_name<brittle>);
          CHECK(found.where().stage == training.plan().cut().stage_of(layer));
          CHECK(found.where().micro_batch == 1);
          CHECK(found.where().step == first);
          recovers();
        }
      // The worker itself throws while operations are enqueued.
      for (const action_kind where :
           {action_kind::forward, action_kind::backward, action_kind::reduce, action_kind::update}) {
        CAPTURE(name_of(where));
        disturbance = [&](const instruction& i) {
          const bool there =
              i.kind == where || (where == action_kind::backward && i.kind == action_kind::backward_input);
          if (there && i.stage == stages - 1 && (i.micro_batch == 1 || i.micro_batch < 0))
            throw std::runtime_error("thrown here");
        };
        CHECK(failure(data.take(0, 11)).wrong() == "thrown here");
        recovers();
      }
      auto bad = data;
      bad.inputs[12 * 7] = std::numeric_limits<float>::quiet_NaN();
      CHECK(failure(bad.take(0, 11)).wrong().starts_with("the field \"inputs\" of the data is not finite in sample "));
      recovers();
      CHECK_THROWS_WITH_AS(training.evaluate(bad.take(0, 11)),
                           doctest::Contains("the field \"inputs\" of the data is not finite"), error);
      recovers();
    }
}

TEST_CASE("processes carry the host's memory and reject another device") {
  threaded::job job(1);
  job.run([](process_group& alone) {
    training_options how;
    how.job = &alone;
    CHECK_THROWS_WITH_AS((trainer<fragile, adam, queued::device>{plan_options{}, adam{}, how}),
                         doctest::Contains("the job transfers host memory only"), error);
  });
}

TEST_CASE("a failure in a captured step fails the step, and its graph is not launched again") {
  const samples<float> data(40, 12, 1);
  queued::lazy = 2;
  for (const int workers : {1, 2, 3}) {
    CAPTURE(workers);
    trap.layer_index = -1;
    const plan_options options{.stages = 3, .micro_batches = 4, .micro_batch_size = 3, .workers = workers};
    training_options how;
    how.graph = true;
    trainer<fragile, adam, queued::device> training(options, adam{}, how);
    trainer<fragile, adam> twin(options, adam{});
    const auto steps_alike = [&](int first) {
      queued::graph::captured = 0;
      const batch next = data.take(first, 11);
      CHECK(training.step(next).loss == twin.step(next).loss);
      CHECK(state_of(training) == state_of(twin));
      return queued::graph::captured > 0;
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
    // A step that is captured, and fails by one of its operations.
    training.freeze(4), twin.freeze(4);
    trap.layer_index = 1, trap.backward = false, trap.first_sample = 3;
    const std::string stage = std::to_string(training.plan().cut().stage_of(1)),
                      want = "brittle, stage " + stage + ", micro-batch 1, reduce, step 4: blown";
    CHECK_THROWS_WITH_AS(training.step(data.take(0, 11)), doctest::Contains(want.c_str()), error);
    trap.layer_index = -1;
    CHECK(steps_alike(4));
    // A later evaluation that succeeds does not report the failure.
    training.freeze(1), twin.freeze(1);
    trap.layer_index = 1;
    CHECK_THROWS_AS(training.step(data.take(0, 11)), error);
    trap.layer_index = -1;
    CHECK(training.evaluate(data.take(0, 11)).loss == twin.evaluate(data.take(0, 11)).loss);
    CHECK(steps_alike(5));
  }
}
