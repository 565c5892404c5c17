// expect: gpipe: a tied<Name, Layer> needs one layer, and this is a list of several. The slices of a head cannot
// expect: tied_item_is_one_layer<gpipe::broken::position<1>
// errors: 1
#include <gpipe/layer/attention/embedding.hpp>
#include <gpipe/layer/attention/token_head.hpp>
#include <gpipe/model/model.hpp>

using namespace gpipe;

#ifdef GPIPE_FAIL
constexpr int count = 3;
#else
constexpr int count = 1;
#endif
struct net : model<input<std::int32_t, 4>, tied<"wte", embedding<9, 8>>, tied<"wte", token_head<9, slices<count>>>> {};
static_assert(layers_of<net> > 0);
