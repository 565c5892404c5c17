// expect: leaky_relu<Slope>: Slope must be above 0 and below 1
#include <gpipe/layer/activation/leaky_relu.hpp>
#include <gpipe/model/model.hpp>

using namespace gpipe;

#ifdef GPIPE_FAIL
struct net : model<input<float, 8>, leaky_relu<-0.01>> {};
#else
struct net : model<input<float, 8>, leaky_relu<0.01>, leaky_relu<10>, leaky_relu<>> {};
#endif
static_assert(layers_of<net> > 0);
