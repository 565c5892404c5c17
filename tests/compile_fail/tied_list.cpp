// expect: gpipe: a tied<Name, Layer> needs one layer, or a head in slices, and this is a list of several
// expect: tied_item_is_one_layer<gpipe::broken::position<1>
// errors: 1
#include <gpipe/layer/activation/relu.hpp>
#include <gpipe/layer/linear/linear.hpp>
#include <gpipe/model/model.hpp>

using namespace gpipe;

#ifdef GPIPE_FAIL
using second = sequence<tied<"both", linear<8>>, relu>;
struct net : model<input<float, 8>, tied<"both", linear<8>>, tied<"both", second>> {};
#else
struct net : model<input<float, 8>, tied<"both", linear<8>>, sequence<tied<"both", linear<8>>, relu>> {};
#endif
static_assert(layers_of<net> > 0);
