#include <gpipe/tools/best/best.hpp>

#include <doctest/doctest.h>

#include <boost/hana/length.hpp>

#include <algorithm>

#include <gpipe/layer/activation/gelu.hpp>
#include <gpipe/layer/linear/linear.hpp>
#include <gpipe/layer/loss/softmax_cross_entropy.hpp>
#include <gpipe/model/model.hpp>
#include <gpipe/stages.hpp>
#include <gpipe/tools/best/choose_best.hpp>

using namespace gpipe;

namespace {

struct best_net : model<input<float, 64>, linear<256>, gelu, linear<256>, gelu, linear<256>, gelu, linear<10>,
                        softmax_cross_entropy> {};

using free_plan = plan<best_net, best<devices<2>, mini_batch<32>, replicas<1>>>;
using small_plan = plan<best_net, best<devices<2>, mini_batch<16>, schedule<one_f_one_b>>, memory_limit<2'000'000>>;

// An ordinary plan: its step is that of the choice, and its stages are types.
static_assert(free_plan::choice.fits() && free_plan::choice.min <= free_plan::choice.winner.step);
static_assert(free_plan::makespan() + free_plan::choice.update == free_plan::choice.winner.step);
static_assert(free_plan::options.replicas == 1 && free_plan::M * free_plan::B >= 32);
static_assert(decltype(boost::hana::length(free_plan::stages()))::value == free_plan::S);
static_assert(small_plan::options.schedule == schedule_kind::one_f_one_b);
static_assert(require_fits<small_plan, 2'000'000>());

template <class Plan>
void check_same(const best_choice& at_run_time) {
  const best_choice& compiled = Plan::choice;
  CHECK(compiled.winner.schedule == at_run_time.winner.schedule);
  CHECK(compiled.winner.replicas == at_run_time.winner.replicas);
  CHECK(compiled.winner.workers == at_run_time.winner.workers);
  CHECK(compiled.winner.stages == at_run_time.winner.stages);
  CHECK(compiled.winner.micro_batches == at_run_time.winner.micro_batches);
  CHECK(compiled.winner.micro_batch_size == at_run_time.winner.micro_batch_size);
  CHECK(compiled.winner.step == at_run_time.winner.step);
  CHECK(compiled.update == at_run_time.update);
  CHECK(compiled.min == at_run_time.min);
  CHECK(std::equal(compiled.first, compiled.first + Plan::S + 1, at_run_time.first));
  CHECK(std::equal(compiled.first, compiled.first + Plan::S + 1, Plan::cut().first));
  CHECK(Plan::options.schedule == compiled.winner.schedule);
  CHECK(Plan::S == compiled.winner.stages);
}

}  // namespace

TEST_CASE("the compiler's choice is that of choose_best at run time") {
  check_same<free_plan>(choose_best(network_of<best_net>, {.devices = 2, .batch = 32, .replicas = 1}));
  check_same<small_plan>(choose_best(network_of<best_net>,
                                     {.devices = 2, .batch = 16, .schedule = schedule_kind::one_f_one_b},
                                     {.memory_limit = 2'000'000}));
}
