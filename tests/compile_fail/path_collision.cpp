// expect: two layers with parameters or state have the same Path: give one of them another name
// expect: paths_differ<gpipe::broken::position<1>, gpipe::broken::position<8>, gpipe::detail::letters<'h', '.', '0'>,
// errors: 1
#include <gpipe/layer.hpp>
#include <gpipe/model/model.hpp>

using namespace gpipe;

#ifdef GPIPE_FAIL
struct head : named<"h", linear<4>, softmax_cross_entropy> {};
#else
struct head : named<"head", linear<4>, softmax_cross_entropy> {};
#endif
struct net : model<input<float, 8>, relu, named<"h", repeat<7, linear<8>>>, head> {};
static_assert(layers_of<net> == 10);
