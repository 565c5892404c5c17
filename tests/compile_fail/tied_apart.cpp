// expect: a tied layer shares no parameter with the layers that are tied under that name before it
// expect: tied_layers_share_a_parameter<gpipe::broken::position<1>, gpipe::detail::letters<'w', 't', 'e'>
// errors: 1
#include <gpipe/layer/attention/embedding.hpp>
#include <gpipe/layer/linear/bias.hpp>
#include <gpipe/layer/linear/linear.hpp>
#include <gpipe/model/model.hpp>

using namespace gpipe;

#ifdef GPIPE_FAIL
using behind = bias;
#else
using behind = linear<9>;
#endif
struct net : model<input<std::int32_t, 4>, tied<"wte", embedding<9, 8>>, tied<"wte", behind>> {};
static_assert(layers_of<net> == 2);
