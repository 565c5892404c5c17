// expect: at this position the model of a shorter length has another layer
// expect: lengths_have_the_same_layers<gpipe::broken::length<8>, gpipe::broken::position<1>
// errors: 1
#include <gpipe/layer/activation/relu.hpp>
#include <gpipe/layer/linear/linear.hpp>
#include <gpipe/model/lengths.hpp>

using namespace gpipe;

template <int Tokens>
struct net : model<input<float, Tokens, 4>, linear<4>, relu> {};
#ifdef GPIPE_FAIL
template <>
struct net<8> : model<input<float, 8, 4>, linear<4>, linear<4>> {};
#endif
constexpr bool share = lengths<net, 8, 16>::share;
