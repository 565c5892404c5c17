// expect: another micro-batch size .SizeOfProfile. than the plan's .SizeOfPlan.: profile with the plan's size
// expect: profile_has_the_micro_batch_size<8, 4, false>
// errors: 1
#include <gpipe/layer/activation/relu.hpp>
#include <gpipe/layer/linear/linear.hpp>
#include <gpipe/plan/plan.hpp>

using namespace gpipe;

struct net : model<input<float, 8>, linear<8>, relu> {};
struct measured {
#ifdef GPIPE_FAIL
  static constexpr int micro_batch_size = 4;
#else
  static constexpr int micro_batch_size = 8;
#endif
  static constexpr measured_layer layers[] = {{0, "linear<8>", 10, 11, 12}, {1, "relu", 900, 800}};
};
static_assert(plan<net, stages<2>, micro_batch_size<8>, profiled<measured>>::S == 2);
