// expect: the extents of a model's input must be at least 1
// expect: model_input_has_elements<gpipe::tensor<float, 0>, false>
// errors: 1
#include <gpipe/layer/activation/relu.hpp>
#include <gpipe/layer/linear/linear.hpp>
#include <gpipe/plan/plan.hpp>

using namespace gpipe;

#ifdef GPIPE_FAIL
struct net : model<input<float, 0>, relu, linear<3>> {};
#else
struct net : model<input<float, 1>, relu, linear<3>> {};
#endif
using some = plan<net, stages<2>>;
static_assert(some::memory(0).total() > 0);
