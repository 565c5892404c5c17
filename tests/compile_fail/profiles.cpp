// expect: the profile is of another model: at this Position it has the layer Given, but the model has Expected
// expect: profile_names_the_layer<1, gpipe::relu, gpipe::detail::letters<'g', 'e', 'l', 'u'>, false>
// expect: the profile is of another model: LinesOfProfile and LayersOfModel must be equal
// expect: profile_has_a_line_for_each_layer<2, 3, false>
// expect: another micro-batch size .SizeOfProfile. than the plan's .SizeOfPlan.: profile with the plan's size
// expect: profile_has_the_micro_batch_size<8, 4, false>
// errors: 3
#include <gpipe/layer/activation/relu.hpp>
#include <gpipe/layer/linear/linear.hpp>
#include <gpipe/plan/plan.hpp>

using namespace gpipe;

struct net : model<input<float, 8>, linear<8>, relu> {};
struct measured {
  static constexpr int micro_batch_size = 4;
  static constexpr measured_layer layers[] = {{0, "linear<8>", 10, 11, 12}, {1, "relu", 900, 800}};
};
#ifdef GPIPE_FAIL
constexpr int size = 8;
struct of_gelu : measured {
  static constexpr measured_layer layers[] = {{0, "linear<8>", 10, 11, 12}, {1, "gelu", 900, 800}};
};
struct of_three : measured {
  static constexpr measured_layer layers[] = {
      {0, "linear<8>", 10, 11, 12}, {1, "relu", 900, 800}, {2, "relu", 900, 800}};
};
#else
constexpr int size = 4;
struct of_gelu : measured {};
struct of_three : measured {};
#endif
static_assert(plan<net, stages<2>, micro_batch_size<size>, profiled<measured>>::S == 2);
static_assert(plan<net, stages<2>, micro_batch_size<4>, profiled<of_gelu>>::S == 2);
static_assert(plan<net, stages<2>, micro_batch_size<4>, profiled<of_three>>::S == 2);
