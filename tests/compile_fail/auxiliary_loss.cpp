// expect: auxiliary<Name, Factor, Loss> needs a loss
#include <gpipe/layer.hpp>
#include <gpipe/model/model.hpp>

using namespace gpipe;

#ifdef GPIPE_FAIL
struct net : model<input<float, 10>, auxiliary<"early", 500, relu>, softmax_cross_entropy> {};
#else
struct net : model<input<float, 10>, auxiliary<"early", 500, mean_squared_error>, softmax_cross_entropy> {};
#endif
constexpr int layers = layers_of<net>;
