// expect: describe<plan<net, stages<4>>>.. has a plan of the compiler; a model alone is summary<net>
// expect: describe_takes_a_plan<net, false>
// errors: 1
#include <gpipe/layer/activation/relu.hpp>
#include <gpipe/layer/loss/softmax_cross_entropy.hpp>
#include <gpipe/plan/plan.hpp>
#include <gpipe/plan/summary.hpp>
#include <string>

using namespace gpipe;

struct net : model<input<float, 8>, relu, softmax_cross_entropy> {};
#ifdef GPIPE_FAIL
const std::string text = describe<net>();
#else
const std::string text = describe<plan<net>>();
#endif
