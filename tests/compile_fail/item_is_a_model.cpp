// expect: an item of the model is a model, whose input would be ignored
// expect: item_is_no_model<
// expect: position<1, block>
// errors: 1
#include <gpipe/layer/activation/relu.hpp>
#include <gpipe/model/model.hpp>

using namespace gpipe;

#ifdef GPIPE_FAIL
struct block : model<input<float, 4>, relu, relu> {};
#else
struct block : sequence<relu, relu> {};
#endif
struct net : model<input<float, 8>, relu, block> {};
constexpr int layers = layers_of<net>;
