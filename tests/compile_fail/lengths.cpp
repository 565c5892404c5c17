// expect: gpipe: lengths<net> names no length: write those of the plans behind the model, the shortest first
// expect: gpipe: the lengths of lengths<net, ...> do not ascend from a positive number
// expect: lengths_ascend<false, 16, 8>
// expect: at this position the model of a shorter length has another layer
// expect: lengths_have_the_same_layers<gpipe::broken::length<8>, gpipe::broken::position<1>
// expect: a parameter has another shape in the model of a shorter length than in that of the longest
// expect: lengths_share_parameters<gpipe::broken::length<8>, gpipe::broken::position<1>
// expect: gpipe::detail::letters<'w', 'e', 'i', 'g', 'h', 't'>, gpipe::broken::here<gpipe::tensor<float, 8, 4>
// expect: gpipe::broken::of_longest<gpipe::tensor<float, 16, 4>
// errors: 4
#include <gpipe/layer/activation/relu.hpp>
#include <gpipe/layer/attention/positions.hpp>
#include <gpipe/layer/linear/linear.hpp>
#include <gpipe/model/lengths.hpp>

using namespace gpipe;

template <int Tokens>
struct net : model<input<float, Tokens, 4>, linear<4>> {};
template <int Tokens>
struct with_relu : model<input<float, Tokens, 4>, linear<4>, relu> {};
#ifdef GPIPE_FAIL
template <>
struct with_relu<8> : model<input<float, 8, 4>, linear<4>, linear<4>> {};
template <int Tokens>
struct with_positions : model<input<float, Tokens, 4>, linear<4>, learned_positions<Tokens>> {};
using empty = lengths<net>;
using ordered = lengths<net, 16, 8>;
#else
template <int Tokens>
struct with_positions : model<input<float, Tokens, 4>, linear<4>, learned_positions<16>> {};
using empty = lengths<net, 8>;
using ordered = lengths<net, 8, 16>;
#endif
static_assert(layers_of<empty::longest> + layers_of<ordered::longest> == 2);
constexpr bool share = lengths<with_relu, 8, 16>::share && lengths<with_positions, 8, 16>::share;
