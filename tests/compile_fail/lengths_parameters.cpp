// expect: a parameter has another shape in the model of a shorter length than in that of the longest
// expect: lengths_share_parameters<gpipe::broken::length<8>, gpipe::broken::position<1>
// expect: gpipe::detail::letters<'w', 'e', 'i', 'g', 'h', 't'>, gpipe::broken::here<gpipe::tensor<float, 8, 4>
// expect: gpipe::broken::of_longest<gpipe::tensor<float, 16, 4>
// errors: 1
#include <gpipe/layer/attention/positions.hpp>
#include <gpipe/layer/linear/linear.hpp>
#include <gpipe/model/lengths.hpp>

using namespace gpipe;

#ifdef GPIPE_FAIL
template <int Tokens>
struct net : model<input<float, Tokens, 4>, linear<4>, learned_positions<Tokens>> {};
#else
template <int Tokens>
struct net : model<input<float, Tokens, 4>, linear<4>, learned_positions<16>> {};
#endif
constexpr bool share = lengths<net, 8, 16>::share;
