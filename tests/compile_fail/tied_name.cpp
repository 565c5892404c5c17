// expect: a tied<Name, Layer, Parameters...> names a parameter that the layer does not have
// expect: tied_layer_has_the_parameter<gpipe::broken::position<1>, gpipe::detail::letters<'w', 't', 'e'>
// expect: gpipe::detail::letters<'w', 'e', 'i', 'g', 'h', 't', 's'>
// errors: 1
#include <gpipe/layer/attention/embedding.hpp>
#include <gpipe/layer/attention/token_head.hpp>
#include <gpipe/model/model.hpp>

using namespace gpipe;

#ifdef GPIPE_FAIL
using head = tied<"wte", token_head<9>, "weights">;
#else
using head = tied<"wte", token_head<9>, "weight">;
#endif
struct net : model<input<std::int32_t, 4>, tied<"wte", embedding<9, 8>>, head> {};
static_assert(layers_of<net> == 2);
