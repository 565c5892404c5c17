// expect: cross_entropy{.clip} must be a float above 0
// expect: cross_entropy{.smoothing} must be in 0 ... 1
// expect: leaky_relu<Slope>: Slope must be above 0 and below 1
// expect: auxiliary<Name, Factor, Loss> needs a Factor above 0
// expect: the layer reads no field From
// expect: gpipe: a name is a text in double quotes
// expect: only<Item> needs a pop
#include <gpipe/layer.hpp>
#include <gpipe/model/model.hpp>

using namespace gpipe;

template <class... Items>
struct net : model<input<float, 8>, Items...> {};
using loss = softmax_cross_entropy;

#ifdef GPIPE_FAIL
constexpr int layers[] = {layers_of<net<softmax_cross_entropy_with<cross_entropy{.clip = -10}>>>,
                          layers_of<net<softmax_cross_entropy_with<cross_entropy{.smoothing = 1.5}>>>,
                          layers_of<net<leaky_relu<-0.01>>>,
                          layers_of<net<auxiliary<"early", 0, loss>, loss>>,
                          layers_of<net<with_field<"label", "group", loss>, gelu, loss>>,
                          layers_of<net<stash<'x'>, relu, pop<'x'>, add>>,
                          layers_of<net<stash<"x">, relu, stash<"y">, only<relu>, pop<"y">, add, relu>>};
#else
constexpr int layers[] = {layers_of<net<softmax_cross_entropy_with<cross_entropy{.clip = 10}>>>,
                          layers_of<net<softmax_cross_entropy_with<cross_entropy{.smoothing = 0.1}>>>,
                          layers_of<net<leaky_relu<0.01>, leaky_relu<10>, leaky_relu<>>>,
                          layers_of<net<auxiliary<"early", 1, loss>, loss>>,
                          layers_of<net<auxiliary<"a", 500, with_field<"labels", "group", loss>>, loss>>,
                          layers_of<net<stash<"x">, relu, pop<"x">, add>>,
                          layers_of<net<stash<"x">, relu, stash<"y">, only<pop<"x">>, pop<"y">, add, relu>>};
#endif
