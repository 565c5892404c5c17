// sanitizers: address

#include <gpipe/runtime/worker/worker.hpp>

#include <doctest/doctest.h>

#include <stdexcept>
#include <string>

#include <gpipe/core/descriptions/optimizer.hpp>
#include <gpipe/device/host/host.hpp>
#include <gpipe/make_plan.hpp>
#include <gpipe/plan/program/step_programs.hpp>
#include <gpipe/plan/schedule/contract/label.hpp>
#include <gpipe/runtime/step/step_input.hpp>

#include "support/layers.hpp"

using namespace gpipe;
using namespace gpipe::detail;
using namespace laws;

namespace {

struct net : model<input<float, 4>, halve, cross, join, passing_loss> {};
using context = host::context;

/// Throws in the parameter part of the second micro-batch.
struct fails_second {
  template <class In>
  struct on : halve::on<In> {
    static constexpr parameter parameters[] = {{"weight", {1}, initializer::ones()}};
    static inline int calls = 0;
    static void backward_parameters(const auto&, const auto&) {
      if (++calls == 2) throw std::runtime_error("no");
    }
  };
};
struct failing_net : model<input<float, 4>, fails_second, join, passing_loss> {};

/// One worker with everything that it needs, on this thread.
template <class Net = net>
struct one_worker {
  plan_options options;
  step_plan plan = make_plan(network_of<Net>, options);
  optimizer_update rule = optimizer_update::of<context>(sgd{});
  parameter_groups groups{network_of<Net>, {}};
  worker_signals wake_signals{1};
  replica its{
      gpipe::detail::device_of<host_device>, network_of<Net>, plan, 0, {plan, nullptr}, wake_signals, std::byte{0}, {}};
  gpipe::detail::barrier barrier{wake_signals, 1};
  step_context step;
  commit_decision decision;
  std::vector<stage_report> reports{1};
  std::function<void(const instruction&)> before;
  other_processes others;
  recorder events{100};
  std::vector<instruction> program;
  std::vector<float> x = std::vector<float>(20, 0.5F);
  std::vector<std::int32_t> labels = std::vector<std::int32_t>(5);

  one_worker() : one_worker(recompute_mode::always, 1) {}
  one_worker(recompute_mode mode, int group_gradients)
      : options{.micro_batches = 3, .micro_batch_size = 2, .recompute = mode, .group_gradients = group_gradients} {
    its.bind(kernels_of<Net, context>, false);
    stage().begin_updates(groups);
    stage().begin_moments(rule);
    decision.reserve(network_of<Net>, 3);
    decision.terms.rate = 1;
    const step_programs programs(fill_drain{}, 1, 3, mode, nullptr, 0, send_mode::synchronous, group_gradients);
    const program_view view = programs.views()[0];
    program.assign(view.lines, view.lines + view.length);
    give(5);
  }
  void give(int samples) {
    batch b(samples);
    b.with("inputs", std::span(x).first(static_cast<std::size_t>(4 * samples)));
    b.with("labels", std::span(labels).first(static_cast<std::size_t>(samples)));
    check_batch(network_of<Net>, b, 6, step.rows);
    step.per_micro_batch = (samples + 2) / 3;
  }
  bound_stage& stage() { return its.stage(0); }
  void run() {
    its.begin(step);
    worker w({gpipe::detail::device_of<host_device>, network_of<Net>, plan, rule, nullptr, wake_signals, barrier, step,
              decision, reports, before, 0, others},
             its, 0, 0, &events);
    w.run(program, true);
  }
};

std::string short_hand(std::span<const trace_event> events) {
  std::string text;
  for (const trace_event& e : events)
    text += std::string(label_of(instruction{e.kind, e.stage, e.micro_batch, -1})) + " ";
  return text;
}

}  // namespace

TEST_CASE("a worker runs its program, and records its actions in order") {
  one_worker<> a;
  std::string before;
  a.before = [&](const instruction& i) { before += std::string(label_of(i)) + " "; };
  a.run();
  CHECK(before == "F2 F1 F0 R0 B0 R1 B1 R2 B2 reduce update ");
  CHECK(short_hand(a.events.events()) == before);
  for (std::size_t i = 1; i < a.events.events().size(); ++i)
    CHECK(a.events.events()[i].begin_ns >= a.events.events()[i - 1].end_ns);
  CHECK(a.reports[0].busy(action_kind::backward) > 0);
  CHECK(a.reports[0].busy(action_kind::receive_activation) == 0);
  CHECK(a.decision.result.holds);
  CHECK(a.decision.result.found.samples == 5);
  CHECK(a.decision.gathered.squares[1] > 0);
}

TEST_CASE("micro-batches without samples are skipped") {
  one_worker<> a;
  a.give(2);
  a.run();
  CHECK(short_hand(a.events.events()) == "F1 F0 R0 B0 R1 B1 reduce update ");
}

TEST_CASE("gradients are cleared at the start of a pass, and parameters change only at its end") {
  one_worker<> a;
  const auto* gradient = reinterpret_cast<const float*>(a.stage().gradients());
  const auto* parameter = reinterpret_cast<const float*>(a.stage().parameters());
  a.before = [&](const instruction& i) {
    if (i.kind == action_kind::forward && i.micro_batch == 2) CHECK(gradient[0] == 0);
    CHECK(parameter[0] == 0);
  };
  a.run();
  const float first = gradient[0], after = parameter[0];
  CHECK(first != 0);
  CHECK(after == doctest::Approx(-first / 5));
  a.stage().context().fill(64, std::byte{0}, a.stage().parameters());
  a.run();
  CHECK(gradient[0] == first);
}

TEST_CASE("an exception is thrown again with its location") {
  one_worker<> a;
  a.step.step = 7;
  a.before = [](const instruction& i) {
    if (i.kind == action_kind::recompute && i.micro_batch == 1) throw std::runtime_error("no");
  };
  CHECK_THROWS_WITH_AS(a.run(), "stage 0, micro-batch 1, recompute, step 7: no", error);
  a.before = [](const instruction&) {
    throw error("wrong", "mend it", {.layer = "that", .layer_index = 2, .stage = 5, .action = "dreaming"});
  };
  CHECK_THROWS_WITH_AS(a.run(), "layer 2 that, stage 5, micro-batch 2, dreaming, step 7: wrong; mend it", error);
  a.before = [](const instruction&) { throw detail::interrupted{}; };
  CHECK_THROWS_AS(a.run(), detail::interrupted);
}

TEST_CASE("after a failure elsewhere a worker begins no further action") {
  one_worker<> a;
  std::string before;
  for (const auto at : {action_kind::forward, action_kind::recompute, action_kind::reduce}) {
    before.clear();
    a.before = [&](const instruction& i) {
      before += std::string(label_of(i)) + " ";
      if (i.kind == at) a.wake_signals.wake_all();
    };
    CHECK_THROWS_AS(a.run(), detail::interrupted);
    CHECK(before == (at == action_kind::forward     ? "F2 "
                     : at == action_kind::recompute ? "F2 F1 F0 R0 "
                                                    : "F2 F1 F0 R0 B0 R1 B1 R2 B2 reduce "));
    a.wake_signals.reset();
  }
}

TEST_CASE("consecutive parameter parts are computed together, and a failure names its own micro-batch") {
  one_worker<> a(recompute_mode::never, 2), one_by_one;
  std::string before;
  a.before = [&](const instruction& i) { before += std::string(label_of(i)) + " "; };
  a.run();
  one_by_one.run();
  CHECK(before == "F2 F1 F0 I0 I1 W0 W1 I2 W2 reduce update ");
  CHECK(short_hand(a.events.events()) == before);
  const auto gradients = [](one_worker<>& of) { return reinterpret_cast<const float*>(of.stage().gradients()); };
  CHECK(gradients(a)[0] != 0);
  CHECK(gradients(a)[0] == gradients(one_by_one)[0]);
  a.give(1);  // the others of its group are empty
  a.run();
  CHECK(a.decision.result.found.samples == 1);

  one_worker<failing_net> fails(recompute_mode::never, 3);
  CHECK_THROWS_WITH_AS(
      fails.run(), doctest::Contains("fails_second, stage 0, micro-batch 1, backward parameters, step 0: no"), error);
}
