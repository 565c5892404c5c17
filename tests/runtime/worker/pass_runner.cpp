#include <gpipe/runtime/worker/pass_runner.hpp>

#include <doctest/doctest.h>

#include <atomic>

#include <gpipe/layer.hpp>
#include <gpipe/make_plan.hpp>
#include <gpipe/model/model.hpp>

#include "support/threaded_job.hpp"

using namespace gpipe;

namespace {

struct net : model<input<float, 4>, linear<4>, gelu, linear<2>, softmax_cross_entropy> {};

step_plan planned(recompute_mode recompute, int group_gradients = 0) {
  return make_plan(network_of<net>, {.stages = 4,
                                     .micro_batches = 4,
                                     .micro_batch_size = 2,
                                     .recompute = recompute,
                                     .workers = 2,
                                     .replicas = 2,
                                     .group_gradients = group_gradients});
}
bool same(const std::vector<instruction>& a, const std::vector<instruction>& b) {
  bool alike = a.size() == b.size();
  for (std::size_t i = 0; alike && i < a.size(); ++i)
    alike = a[i].kind == b[i].kind && a[i].stage == b[i].stage && a[i].micro_batch == b[i].micro_batch &&
            a[i].link == b[i].link;
  return alike;
}
int count(const std::vector<instruction>& program, action_kind kind) {
  int found = 0;
  for (const instruction& i : program) found += i.kind == kind;
  return found;
}

}  // namespace

TEST_CASE("each worker of a replica has a program; a process of a job has that of its worker") {
  const step_plan plan = planned(recompute_mode::always);
  const detail::worker_programs all(plan, {plan, nullptr});
  REQUIRE(all.training().size() == 2);
  REQUIRE(all.forward().size() == 2);
  CHECK(!same(all.training()[0], all.training()[1]));
  int alike = 0;
  threaded::job(4).run([&](process_group& its) {
    const detail::worker_programs own(plan, {plan, &its});
    const auto w = static_cast<std::size_t>(its.rank() % 2);
    if (own.training().size() != 1 || own.forward().size() != 1) return;
    if (same(own.training()[0], all.training()[w]) && same(own.forward()[0], all.forward()[w]))
      std::atomic_ref(alike).fetch_add(1);
  });
  CHECK(alike == 4);
}

TEST_CASE("a process of a job with several workers has the programs of all") {
  const step_plan plan = planned(recompute_mode::always);
  const detail::worker_programs all(plan, {plan, nullptr});
  int alike = 0;
  threaded::job(2).run([&](process_group& its) {
    const detail::worker_programs own(plan, {plan, &its});
    if (own.training().size() == 2 && same(own.training()[1], all.training()[1]) &&
        same(own.forward()[0], all.forward()[0]))
      std::atomic_ref(alike).fetch_add(1);
  });
  CHECK(alike == 2);
}

TEST_CASE("forward programs have no backward; training programs recompute and group gradients as the plan says") {
  for (const auto mode : {recompute_mode::always, recompute_mode::never}) {
    const step_plan plan = planned(mode);
    const detail::worker_programs made(plan, {plan, nullptr});
    for (std::size_t w = 0; w < 2; ++w) {
      CHECK(count(made.forward()[w], action_kind::forward) == 8);
      CHECK(count(made.forward()[w], action_kind::backward_input) + count(made.forward()[w], action_kind::update) == 0);
      CHECK(count(made.training()[w], action_kind::recompute) == (mode == recompute_mode::always ? 8 : 0));
      CHECK(count(made.training()[w], action_kind::update) == 2);
    }
  }
  const step_plan alone = planned(recompute_mode::never, 1), grouped = planned(recompute_mode::never, 4);
  const detail::worker_programs one(alone, {alone, nullptr}), four(grouped, {grouped, nullptr});
  CHECK(count(one.training()[0], action_kind::backward) > 0);  // the first stage sends no gradient
  CHECK(count(four.training()[0], action_kind::backward) == 0);
}
