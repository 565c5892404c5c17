// expect: cross_entropy{.ignored} is a label of a class: choose one outside .0, C.
#include <gpipe/layer/loss/softmax_cross_entropy.hpp>
#include <gpipe/model/model.hpp>

using namespace gpipe;

#ifdef GPIPE_FAIL
struct net : model<input<float, 10>, softmax_cross_entropy_with<cross_entropy{.ignored = 3}>> {};
#else
struct net : model<input<float, 10>, softmax_cross_entropy_with<cross_entropy{.ignored = -100}>> {};
#endif
constexpr int slots = slots_of<net>;
