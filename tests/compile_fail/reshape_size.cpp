// expect: a view .reshape. must keep the number of elements and their type
// expect: view_keeps_size<gpipe::broken::position<1>, gpipe::reshape<7, 9>, .*elements_of_input<64>,
// expect: gpipe::broken::elements_of_output<63>, false>
// errors: 1
#include <gpipe/layer/activation/relu.hpp>
#include <gpipe/layer/shape/reshape.hpp>
#include <gpipe/model/model.hpp>

using namespace gpipe;

#ifdef GPIPE_FAIL
struct net : model<input<float, 64>, relu, reshape<7, 9>> {};
#else
struct net : model<input<float, 64>, relu, reshape<8, 8>> {};
#endif
constexpr int layers = layers_of<net>;
