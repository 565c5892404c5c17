// expect: the stages of a plan as types are another header's: #include <gpipe/stages.hpp>
// errors: 1
#include <gpipe/plan.hpp>
#ifndef GPIPE_FAIL
#include <gpipe/stages.hpp>
#endif

using namespace gpipe;

struct net : model<input<float, 4>, linear<4>, linear<4>, softmax_cross_entropy> {};
using two = plan<net, stages<2>, micro_batches<4>>;
void look() { static_cast<void>(two::stages()); }
