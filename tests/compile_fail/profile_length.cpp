// expect: the profile is of another model: LinesOfProfile and LayersOfModel must be equal
// expect: profile_has_a_line_for_each_layer<2, 3, false>
// errors: 1
#include <gpipe/layer/activation/relu.hpp>
#include <gpipe/layer/linear/linear.hpp>
#include <gpipe/plan/plan.hpp>

using namespace gpipe;

struct net : model<input<float, 8>, linear<8>, relu> {};
struct measured {
  static constexpr int micro_batch_size = 4;
  static constexpr measured_layer layers[] = {
      {0, "linear<8>", 10, 11, 12},
      {1, "relu", 900, 800},
#ifdef GPIPE_FAIL
      {2, "relu", 900, 800},
#endif
  };
};
static_assert(plan<net, stages<2>, micro_batch_size<4>, profiled<measured>>::S == 2);
