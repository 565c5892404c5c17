#include <gpipe/runtime/worker/worker_programs.hpp>

#include <doctest/doctest.h>

#include <atomic>

#include <gpipe/layer.hpp>

#include "support/threaded_job.hpp"

using namespace gpipe;

namespace {

struct net : model<input<float, 4>, linear<4>, gelu, linear<2>, softmax_cross_entropy> {};

run_plan planned(recompute_mode recompute, int coalesce = 0) {
  return make_plan(network_of<net>, {.stages = 4, .micro_batches = 4, .micro_batch_size = 2, .recompute = recompute,
                                     .workers = 2, .replicas = 2, .coalesce = coalesce});
}
bool same(const std::vector<instruction>& a, const std::vector<instruction>& b) {
  bool alike = a.size() == b.size();
  for (std::size_t i = 0; alike && i < a.size(); ++i)
    alike = a[i].kind == b[i].kind && a[i].stage == b[i].stage && a[i].micro_batch == b[i].micro_batch &&
            a[i].link == b[i].link;
  return alike;
}
int count(const std::vector<instruction>& program, act kind) {
  int found = 0;
  for (const instruction& i : program) found += i.kind == kind;
  return found;
}

}  // namespace

TEST_CASE("a program for each worker of a replica, in a job that of its own worker") {
  const run_plan plan = planned(recompute_mode::always);
  const detail::programs all(plan, {plan, nullptr});
  REQUIRE(all.training().size() == 2);
  REQUIRE(all.evaluating().size() == 2);
  CHECK(!same(all.training()[0], all.training()[1]));
  int alike = 0;
  threaded::job(4).run([&](peers& its) {
    const detail::programs own(plan, {plan, &its});
    const auto w = static_cast<std::size_t>(its.rank() % 2);
    if (own.training().size() != 1 || own.evaluating().size() != 1) return;
    if (same(own.training()[0], all.training()[w]) && same(own.evaluating()[0], all.evaluating()[w]))
      std::atomic_ref(alike).fetch_add(1);
  });
  CHECK(alike == 4);
}

TEST_CASE("who evaluates runs forward alone; who trains recomputes as the plan says, and makes together what it says") {
  for (const auto mode : {recompute_mode::always, recompute_mode::never}) {
    const run_plan plan = planned(mode);
    const detail::programs made(plan, {plan, nullptr});
    for (std::size_t w = 0; w < 2; ++w) {
      CHECK(count(made.evaluating()[w], act::forward) == 8);
      CHECK(count(made.evaluating()[w], act::backward_input) + count(made.evaluating()[w], act::update) == 0);
      CHECK(count(made.training()[w], act::recompute) == (mode == recompute_mode::always ? 8 : 0));
      CHECK(count(made.training()[w], act::update) == 2);
    }
  }
  const run_plan alone = planned(recompute_mode::never, 1), together = planned(recompute_mode::never, 4);
  const detail::programs one(alone, {alone, nullptr}), four(together, {together, nullptr});
  CHECK(count(one.training()[0], act::backward) > 0);  // the first stage sends no gradient
  CHECK(count(four.training()[0], act::backward) == 0);
}
