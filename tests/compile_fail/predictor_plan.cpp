// expect: a predictor.s plan runs forward only: add schedule<forward_only> to its options
// errors: 1
#include <gpipe/layer/activation/relu.hpp>
#include <gpipe/layer/loss/softmax_cross_entropy.hpp>
#include <gpipe/plan.hpp>
#include <gpipe/train/predictor.hpp>

using namespace gpipe;

struct net : model<input<float, 8>, relu, softmax_cross_entropy> {};
#ifdef GPIPE_FAIL
using made = plan<net, stages<2>>;
#else
using made = plan<net, stages<2>, schedule<forward_only>>;
#endif
predictor<net> served{made{}};
