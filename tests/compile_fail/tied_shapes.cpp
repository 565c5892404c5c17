// expect: a tied layer's parameters must have the shapes and types of the first layer tied under that name
// expect: tied_parameters_match<gpipe::broken::position<2>, gpipe::detail::letters<'b', 'o', 't', 'h'>, false>
// errors: 1
#include <gpipe/layer/linear/linear.hpp>
#include <gpipe/layer/activation/relu.hpp>
#include <gpipe/model/model.hpp>

using namespace gpipe;

#ifdef GPIPE_FAIL
constexpr int width = 9;
#else
constexpr int width = 8;
#endif
struct net : model<input<float, 8>, tied<"both", linear<8>>, relu, tied<"both", linear<width>>> {};
static_assert(slots_of<net> == 3);
