// sanitizers: none

// The paper's largest model (Huang et al., 2019, table 1: 1663 layers on 128 devices), with 512 micro-batches: cut,
// sized, scheduled and checked while this file compiles, under the compilers' default limits.

#include <gpipe/plan.hpp>

#include <doctest/doctest.h>

#include <gpipe/make_plan.hpp>

using namespace gpipe;

namespace {

using deepest = plan<transformer<1663>, stages<128>, micro_batches<512>, micro_batch_size<1>, optimizer<sgd>,
                     gpipe::recompute<recompute_mode::always>, on_device<tpu_v3_core>>;

static_assert(deepest::parameters() == 83'876'910'336);
static_assert(deepest::cut().first[128] == deepest::L);
static_assert(deepest::bubble() < 0.2);

// 16 GB per device suffice for the paper's 32 micro-batches (transformer.cpp), but not for the inputs of 512.
constexpr int misfits = [] {
  int count = 0;
  for (int s = 0; s < deepest::S; ++s) count += deepest::memory(s).total() > 16_GB;
  return count;
}();
static_assert(misfits > 0);

}  // namespace

TEST_CASE("the plan made at compile time equals the one made at run time") {
  const step_plan p = make_plan(network_of<transformer<1663>>, deepest::options);
  for (int s = 0; s < deepest::S; ++s) {
    CHECK(p.first[static_cast<std::size_t>(s)] == deepest::cut().first[s]);
    CHECK(p.memory(s).total() == deepest::memory(s).total());
  }
}
