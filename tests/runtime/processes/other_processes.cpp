#include <gpipe/runtime/processes/other_processes.hpp>

#include <doctest/doctest.h>

#include <atomic>

#include <gpipe/layer.hpp>
#include <gpipe/make_plan.hpp>
#include <gpipe/model/model.hpp>

#include "support/threaded_job.hpp"

using namespace gpipe;
using namespace gpipe::detail;

// With other processes: tests/laws/processes.cpp.

TEST_CASE("without other processes every call returns at once and changes nothing") {
  other_processes none;
  gathered_values values{.squares = {1, 2}, .partials = {3}};
  CHECK(!none.joined());
  none.begin({.action = "begin"});
  none.wait(0, {.action = "finish"});
  none.exchange(values, true);
  CHECK(values.squares == std::vector<double>{1, 2});
  CHECK(values.partials == std::vector<double>{3});
  none.ties().send_values(0);
  none.ties().send_gradients({});
  CHECK(none.ties().senders().empty());
}

namespace {

struct net : model<input<float, 4>, linear<4>, gelu, linear<2>, softmax_cross_entropy> {};
const network& n = network_of<net>;
const step_plan plan = make_plan(n, {.stages = 2, .micro_batches = 2, .micro_batch_size = 2, .replicas = 2}, {2});

}  // namespace

TEST_CASE("after an exchange every process has the squares of the first replica and the partials of all") {
  for (const int ranks : {4, 2}) {  // a process has one worker of a replica, or both
    CAPTURE(ranks);
    std::atomic<int> wrong{0};
    threaded::job job(ranks);
    job.run([&](process_group& here) {
      decision_exchange exchange(here, n, plan);
      commit_decision decision;
      decision.reserve(n, plan.all_micro_batches());
      auto& [squares, partials] = decision.gathered;
      const rank_layout its(plan, &here);
      const int r = its.replica();
      const std::size_t part = partials.size() / 2;  // of one replica
      for (int s = 0; s < 2; ++s) {
        if (!its.has_stage(r, s)) continue;
        for (int l = plan.first[detail::index(s)]; l < plan.first[detail::index(s) + 1]; ++l)
          squares[detail::index(l)] = 10 * r + l + 1;
        for (std::size_t i = 0; s == 1 && i < part; ++i) partials[detail::index(r) * part + i] = 100 * (r + 1);
      }
      exchange.exchange(decision.gathered, true, {});
      for (int l = 0; l < n.layer_count; ++l) wrong += squares[detail::index(l)] != l + 1;
      for (std::size_t i = 0; i < partials.size(); ++i) wrong += partials[i] != (i < part ? 100 : 200);
    });
    CHECK(wrong == 0);
  }
}

TEST_CASE("the partials of losses in several stages reach every process") {
  struct losses : model<input<float, 4>, linear<4>, auxiliary<"early", 500, softmax_cross_entropy>, linear<2>,
                        auxiliary<"late", 500, mean_squared_error>, auxiliary<"later", 500, mean_squared_error>,
                        softmax_cross_entropy> {};
  const network& net = network_of<losses>;
  const step_plan two = make_plan(net, {.stages = 2, .micro_batches = 2, .micro_batch_size = 2, .replicas = 2}, {2});
  std::atomic<int> wrong{0};
  threaded::job job(4);
  job.run([&](process_group& here) {
    decision_exchange exchange(here, net, two);
    commit_decision decision;
    decision.reserve(net, two.all_micro_batches());
    auto& partials = decision.gathered.partials;
    const int r = here.rank() / 2, s = here.rank() % 2;
    const auto number = [](const loss_location& loss, std::size_t m, std::size_t p) {
      return static_cast<double>(100 * static_cast<std::size_t>(loss.layer_index) + 10 * m + p);
    };
    const auto each = [&](const auto& f) {
      for (const loss_location& loss : decision.losses)
        for (std::size_t m = 0; m < 4; ++m)
          for (std::size_t p = 0; p < loss.layer->partial_elements(); ++p)
            f(loss, m, p, partials[loss.first + m * loss.stride + p]);
    };
    each([&](const loss_location& loss, std::size_t m, std::size_t p, double& at) {
      if (two.cut().stage_of(loss.layer_index) == s && static_cast<int>(m) / 2 == r) at = number(loss, m, p);
    });
    exchange.exchange(decision.gathered, true, {});
    each([&](const loss_location& loss, std::size_t m, std::size_t p, const double& at) {
      wrong += at != number(loss, m, p);
    });
    wrong += decision.losses.size() != 4;
  });
  CHECK(wrong == 0);
}
