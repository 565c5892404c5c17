// expect: gpipe: a tied layer shares no parameter with the layers that are tied under that name before it
// expect: tied_layers_share_a_parameter<gpipe::broken::position<1,
// errors: 1
#include <gpipe/layer/attention/embedding.hpp>
#include <gpipe/layer/attention/token_head.hpp>
#include <gpipe/model/model.hpp>

using namespace gpipe;

#ifdef GPIPE_FAIL
using shared = tied<"words", token_head<9, slices<2>>, "bias">;  // an embedding has none
#else
using shared = tied<"words", token_head<9, slices<2>>, "weight">;
#endif
struct net : model<input<std::int32_t, 4>, tied<"words", embedding<9, 8>>, shared> {};
static_assert(layers_of<net> > 0);
