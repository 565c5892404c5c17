// expect: the layer reads no field From
#include <gpipe/layer.hpp>
#include <gpipe/model/model.hpp>

using namespace gpipe;

#ifdef GPIPE_FAIL
struct net : model<input<float, 10>, with_field<"label", "group", softmax_cross_entropy>, gelu, softmax_cross_entropy> {
};
#else
struct net : model<input<float, 10>, auxiliary<"a", 500, with_field<"labels", "group", softmax_cross_entropy>>,
                   softmax_cross_entropy> {};
#endif
constexpr int layers = layers_of<net>;
