// expect: gpipe: the lengths of lengths<net, ...> do not ascend from a positive number
// expect: lengths_ascend<false, 16, 8>
// errors: 1
#include <gpipe/layer/linear/linear.hpp>
#include <gpipe/model/lengths.hpp>

using namespace gpipe;

template <int Tokens>
struct net : model<input<float, Tokens, 4>, linear<4>> {};
#ifdef GPIPE_FAIL
using all = lengths<net, 16, 8>;
#else
using all = lengths<net, 8, 16>;
#endif
static_assert(layers_of<all::longest> == 1);
