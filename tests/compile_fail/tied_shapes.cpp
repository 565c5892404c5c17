// expect: or name only the parameters that they share: tied<Name, Layer, Parameters...>
// expect: tied_parameters_match<gpipe::broken::position<2>, gpipe::detail::letters<'b', 'o', 't', 'h'>
// expect: gpipe::detail::letters<'w', 'e', 'i', 'g', 'h', 't'>, gpipe::broken::here<gpipe::tensor<float, 9, 8>
// errors: 1
#include <gpipe/layer/activation/relu.hpp>
#include <gpipe/layer/linear/linear.hpp>
#include <gpipe/model/model.hpp>

using namespace gpipe;

#ifdef GPIPE_FAIL
constexpr int width = 9;
#else
constexpr int width = 8;
#endif
struct net : model<input<float, 8>, tied<"both", linear<8>>, relu, tied<"both", linear<width>>> {};
static_assert(layers_of<net> == 3);
