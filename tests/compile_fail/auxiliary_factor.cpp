// expect: auxiliary<Name, Factor, Loss> needs a Factor above 0
#include <gpipe/layer.hpp>
#include <gpipe/model/model.hpp>

using namespace gpipe;

#ifdef GPIPE_FAIL
struct net : model<input<float, 10>, auxiliary<"early", 0, softmax_cross_entropy>, softmax_cross_entropy> {};
#else
struct net : model<input<float, 10>, auxiliary<"early", 1, softmax_cross_entropy>, softmax_cross_entropy> {};
#endif
constexpr int layers = layers_of<net>;
