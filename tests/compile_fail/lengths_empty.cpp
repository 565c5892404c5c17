// expect: gpipe: lengths<net> names no length: write those of the plans behind the model, the shortest first
// errors: 1
#include <gpipe/layer/linear/linear.hpp>
#include <gpipe/model/lengths.hpp>

using namespace gpipe;

template <int Tokens>
struct net : model<input<float, Tokens, 4>, linear<4>> {};
#ifdef GPIPE_FAIL
using all = lengths<net>;
#else
using all = lengths<net, 8>;
#endif
static_assert(layers_of<all::longest> == 1);
