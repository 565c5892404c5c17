#include <gpipe/runtime/executor.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <set>
#include <string>

#include <gpipe/core/descriptions/optimizer.hpp>
#include <gpipe/device/host/host.hpp>
#include <gpipe/layer/linear/linear.hpp>
#include <gpipe/layer/loss/softmax_cross_entropy.hpp>
#include <gpipe/make_plan.hpp>
#include <gpipe/plan/summary.hpp>
#include <gpipe/tools/report/breakdown.hpp>
#include <gpipe/tools/testing/emulated_link.hpp>

#include "support/layers.hpp"

// Same bits for every cut, failures, memory and weights: tests/laws.

using namespace gpipe;
using namespace gpipe::detail;
using namespace laws;

namespace {

struct net : model<input<double, 4>, halve, cross, join, passing_loss> {};
/// Has a kernel for both parts of backward, too.
struct whole_cross : cross {
  template <class In>
  struct on : cross::on<In> {
    static void backward(const auto& c, const auto& a) {
      cross::on<In>::backward_input(c, a);
      cross::on<In>::backward_parameters(c, a);
    }
  };
};
struct whole_net : model<input<double, 4>, halve, whole_cross, whole_cross, join, passing_loss> {};
struct without_loss : model<input<double, 4>, halve, cross, join> {};

template <class Net = net>
std::unique_ptr<executor> made(plan_options plan, training_options options = {}, const std::vector<int>& cut = {}) {
  return std::make_unique<executor>(gpipe::detail::device_of<host_device>, network_of<Net>,
                                    kernels_of<Net, host::context>, make_plan(network_of<Net>, plan, cut),
                                    optimizer_update::of<host::context>(sgd{}), std::move(options));
}
/// The host under the name of another device.
struct second_device : host_device {
  struct context : host::context {};
  static context make_context(int /*stage*/) { return {}; }
};

constexpr plan_options two{.stages = 2, .micro_batches = 3, .micro_batch_size = 2, .optimizer_moments = 1};

const std::vector<double> x{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20};
const std::vector<std::int32_t> labels{0, 1, 2, 3, 0};
batch batch_of(const std::vector<double>& inputs = x) {
  batch b(5);
  b.with("inputs", inputs).with("labels", labels);
  return b;
}

}  // namespace

TEST_CASE("a step changes parameters by the mean gradient, an evaluation changes nothing") {
  const auto run = made(two);
  CHECK(run->steps() == 0);
  const auto* weight = reinterpret_cast<const double*>(run->parameters(1));
  const auto* gradient = reinterpret_cast<const double*>(run->gradients(1));
  const double before[] = {weight[0], weight[1]};
  CHECK(before[0] != before[1]);
  const step_result first = run->evaluate(batch_of());
  CHECK(weight[0] == before[0]);
  CHECK(run->steps() == 0);
  CHECK(first.norm == 0);
  const step_result step = run->train(batch_of(), 0.01);
  CHECK(step.loss == first.loss);
  CHECK(step.samples == 5);
  CHECK(step.norm == doctest::Approx(std::hypot(gradient[0], gradient[1]) / 5));
  for (const int i : {0, 1}) CHECK(weight[i] == doctest::Approx(before[i] - 0.01 * gradient[i] / 5));
  CHECK(reinterpret_cast<const double*>(run->moments(1, 0))[0] == doctest::Approx(gradient[0] / 5));
  CHECK(run->steps() == 1);
  CHECK(run->evaluate(batch_of()).loss < first.loss);
}

TEST_CASE("a clipped step is no longer than the largest norm") {
  const auto run = made(two);
  const auto* weight = reinterpret_cast<const double*>(run->parameters(1));
  const double before[] = {weight[0], weight[1]};
  const step_result step = run->train(batch_of(), 1, 0.25);
  CHECK(step.norm > 0.25);
  CHECK(std::hypot(weight[0] - before[0], weight[1] - before[1]) == doctest::Approx(0.25));
}

TEST_CASE("report and trace cover every stage since the last reset") {
  training_options options;
  options.trace_events = 64;
  plan_options again = two;
  again.recompute = recompute_mode::except_last;
  const auto run = made(again, options);
  run->train(batch_of(), 0.1);
  REQUIRE(run->report().size() == 2);
  CHECK(run->report()[0].first == 0);
  CHECK(run->report()[1].last == 4);
  CHECK(run->report()[0].predicted_share + run->report()[1].predicted_share == doctest::Approx(1));
  CHECK(run->report()[0].bytes == run->stage(0).arena().size());
  CHECK(run->report()[0].parameters + run->report()[1].parameters == 2);
  REQUIRE(run->trace().size() == 2);
  for (const int s : {0, 1}) {
    const recorder& events = run->trace()[static_cast<std::size_t>(s)];
    CHECK(events.name() == "stage " + std::to_string(s));
    CHECK(events.dropped() == 0);
    CHECK(events.events().back().kind == action_kind::update);
    CHECK(run->report()[static_cast<std::size_t>(s)].busy(action_kind::forward) > 0);
  }
  run->evaluate(batch_of());  // no step
  const auto before = run->report()[0].step_ns, begin = now_ns();
  run->train(batch_of(), 0.1);
  const auto took = now_ns() - begin;
  CHECK(run->report()[0].step_ns - before <= took);
  for (const int s : {0, 1}) {
    std::set<int> steps;
    for (const trace_event& e : run->trace()[static_cast<std::size_t>(s)].events()) {
      CHECK(e.worker == s);
      steps.insert(e.step);
    }
    CHECK(steps == std::set<int>{-1, 0, 1});  // -1: the evaluation
  }
  const breakdown parts = breakdown_of(run->report());
  CHECK(parts.steps == 2);
  CHECK(parts.workers == 2);
  CHECK(parts.total() == 2 * run->report()[0].step_ns);
  for (const auto ns : {parts.compute, parts.recompute, parts.update, parts.bubble, parts.imbalance}) CHECK(ns >= 0);
  for (const auto ns : {parts.compute, parts.recompute, parts.update}) CHECK(ns > 0);
  run->reset_report();
  run->train(batch_of(), 0.1);
  CHECK(run->report()[0].steps == 1);
  run->reset_report();
  CHECK(run->report()[0].step_ns == 0);
  CHECK(run->trace()[0].events().empty());
  CHECK(run->report()[0].busy() == 0);
  CHECK(made(two)->trace().empty());
}

TEST_CASE("emulated links delay transfers as the plan predicts, and change no bit") {
  plan_options options = two;
  options.cost_transfers = true;
  options.device.link_latency_ns = 0;
  const auto plain = made(options, {}, {2});
  const step_plan& plan = plain->plan();
  const traffic bytes = traffic_of(plain->net(), plan.cut(), plan.links[0], 2);
  REQUIRE(bytes.forward_bytes > 0);
  CHECK(bytes.backward_bytes == bytes.forward_bytes);
  options.device.link_bytes_per_second = bytes.forward_bytes * 50;  // 20 ms for a full micro-batch
  training_options slow;
  slow.link_bytes_per_second = options.device.link_bytes_per_second;
  const auto run = made(options, slow, {2});
  CHECK(run->train(batch_of(), 0.1).loss == plain->train(batch_of(), 0.1).loss);
  CHECK(run->train(batch_of(), 0.1).norm == plain->train(batch_of(), 0.1).norm);

  // 2 + 2 + 1 samples go forward one after the other, and then back, the last first.
  const double predicted = 1e-9 * static_cast<double>(step_time(run->net(), run->plan()));
  const breakdown parts = breakdown_of(run->report()), at_once = breakdown_of(plain->report());
  CHECK(predicted == doctest::Approx(120).epsilon(0.01));
  CHECK(parts.step_ms() >= 99);
  CHECK(parts.step_ms() < 480);
  CHECK(parts.total() == 2 * run->report()[0].step_ns);
  // On a busy machine a late worker waits less for the link, so the best of several steps counts.
  auto waited = parts.transfer;
  for (int again = 0; again < 20 && waited <= 2 * 95'000'000LL; ++again) {
    run->reset_report();
    run->train(batch_of(), 0.1);
    waited = (std::max)(waited, breakdown_of(run->report()).transfer);
  }
  CHECK(waited > 2 * 95'000'000LL);
  CHECK(parts.bubble >= 0);
  CHECK(at_once.step_ms() < parts.step_ms());
  CHECK(plain->report()[0].link_ns + plain->report()[1].link_ns == 0);
  slow.link_bytes_per_second = -1;
  CHECK_THROWS_WITH_AS(made(two, slow), doctest::Contains("link_bytes_per_second is -1"), error);
}

TEST_CASE("profile_layers times layers and changes no parameter") {
  training_options options;
  options.layer_times = true;
  const auto run = made(two, options), plain = made(two);
  const std::vector<double> six_inputs(24, 1.0);
  const std::vector<std::int32_t> six_labels(6);
  const batch full = batch(6).with("inputs", six_inputs).with("labels", six_labels);
  CHECK_THROWS_WITH_AS(run->layer_profile(), doctest::Contains("no full micro-batch was timed; run steps of 6 samples"),
                       error);
  const auto* weight = reinterpret_cast<const double*>(plain->parameters(1));
  const double before = weight[0];
  const measured_profile found = plain->profile_layers(full, 3);
  CHECK(weight[0] == before);
  CHECK(plain->steps() == 0);
  CHECK(breakdown_of(plain->report()).steps == 0);
  CHECK(compare(found.view(), plain->net(), 2).error == profile_fault::none);
  for (const measured_layer& line : found.layers) CHECK(line.forward_ns >= 0);
  CHECK(found.layers[1].backward_parameters_ns > 0);
  CHECK(found.layers[2].backward_input_ns > 0);
  CHECK(found.layers[3].backward_parameters_ns == 0);
  CHECK_THROWS_AS(plain->layer_profile(), error);  // timing has ended
  CHECK_THROWS_AS(plain->profile_layers(full, 0), error);
  CHECK(run->train(full, 0.1).norm == plain->train(full, 0.1).norm);
  CHECK(weight[0] != before);
  CHECK(run->layer_profile().layers.size() == 4);
}

TEST_CASE("the time of both parts of backward at once is split in proportion to their costs") {
  const auto run = made<whole_net>({.micro_batches = 3, .micro_batch_size = 2});
  const std::vector<double> inputs(24, 1.0);
  const std::vector<std::int32_t> kinds(6);
  const measured_profile found = run->profile_layers(batch(6).with("inputs", inputs).with("labels", kinds), 2);
  const layer_cost& costs = run->plan().costs().of(0)[2];
  const auto& line = found.layers[2];
  CHECK(line.backward_input_ns > 0);
  CHECK(line.backward_parameters_ns > 0);
  CHECK(std::abs(line.backward_input_ns * (costs.backward_input + costs.backward_parameters) -
                 (line.backward_input_ns + line.backward_parameters_ns) * costs.backward_input) <=
        costs.backward_input + costs.backward_parameters);
}

TEST_CASE("a gradient whose norm is too large for a double is rejected") {
  const auto run = made(two);
  std::vector<double> large(20, 1e100);
  CHECK_THROWS_WITH_AS(run->train(batch_of(large), 0.1), doctest::Contains("the norm of the gradient is not finite"),
                       error);
  CHECK(run->steps() == 0);
  CHECK_NOTHROW(run->train(batch_of(), 0.1));
}

TEST_CASE("a model without a loss and a plan without backward are rejected") {
  const auto run = made<without_loss>(two);
  CHECK_THROWS_WITH_AS(run->train(batch_of(), 0.1), doctest::Contains("the model has no loss"), error);
  CHECK_THROWS_WITH_AS(run->evaluate(batch_of()), doctest::Contains("the model has no loss"), error);
  const auto only_forward =
      made({.stages = 2, .micro_batches = 3, .micro_batch_size = 2, .schedule = schedule_kind::forward_only});
  CHECK(only_forward->evaluate(batch_of()).loss == made(two)->evaluate(batch_of()).loss);
  CHECK_THROWS_WITH_AS(only_forward->train(batch_of(), 0.1), doctest::Contains("forward-only"), error);
}

TEST_CASE("a plan that does not fit into memory is rejected before anything is allocated") {
  // 4 TiB of weights, three times with their gradients and moments.
  struct vast : model<input<float, 4>, linear<4>, repeat<1024, linear<1 << 15>>, linear<3>, softmax_cross_entropy> {};
  CHECK(host_device::memory_left() > 0);
  CHECK_THROWS_WITH_AS(made<vast>({.stages = 4, .micro_batch_size = 1, .optimizer_moments = 1}),
                       doctest::Contains("bytes, but the machine has"), error);
}

TEST_CASE("kernels and an optimizer's update of another device are refused") {
  const auto make = [](const device_functions& device, const optimizer_update& update) {
    executor(device, network_of<net>, kernels_of<net, host::context>, make_plan(network_of<net>, two), update);
  };
  const optimizer_update first = optimizer_update::of<host::context>(sgd{}),
                         second = optimizer_update::of<second_device::context>(sgd{});
  CHECK_NOTHROW(make(device_of<host_device>, first));
  CHECK_THROWS_WITH_AS(make(device_of<host_device>, second),
                       doctest::Contains("the optimizer's update is that of another device"), error);
  CHECK_THROWS_WITH_AS(make(device_of<second_device>, second), doctest::Contains("are those of another device"), error);
}
