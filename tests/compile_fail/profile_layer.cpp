// expect: the profile is of another model: at this Position it has the layer Given, but the model has Expected
// expect: profile_names_the_layer<1, gpipe::relu, gpipe::detail::letters<'g', 'e', 'l', 'u'>, false>
// errors: 1
#include <gpipe/layer/activation/relu.hpp>
#include <gpipe/layer/linear/linear.hpp>
#include <gpipe/plan/plan.hpp>

using namespace gpipe;

struct net : model<input<float, 8>, linear<8>, relu> {};
struct measured {
  static constexpr int micro_batch_size = 4;
#ifdef GPIPE_FAIL
  static constexpr measured_layer layers[] = {{0, "linear<8>", 10, 11, 12}, {1, "gelu", 900, 800}};
#else
  static constexpr measured_layer layers[] = {{0, "linear<8>", 10, 11, 12}, {1, "relu", 900, 800}};
#endif
};
static_assert(plan<net, stages<2>, micro_batch_size<4>, profiled<measured>>::S == 2);
