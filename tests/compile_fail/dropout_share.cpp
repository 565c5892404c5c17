// expect: dropout<P>: P must be a probability of at least 0 and less than 1
#include <gpipe/layer/regularization/dropout.hpp>
#include <gpipe/model/model.hpp>

using namespace gpipe;

#ifdef GPIPE_FAIL
struct net : model<input<float, 8>, dropout<1.0>> {};
#else
struct net : model<input<float, 8>, dropout<0.5>, dropout<50>> {};
#endif
static_assert(layers_of<net> > 0);
