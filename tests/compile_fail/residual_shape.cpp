// expect: a residual's items must return a tensor of their input's type, so that both can be added
// expect: residual_returns_its_input<gpipe::broken::position<3>, gpipe::tensor<float, 8>, gpipe::tensor<float, 9>,
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
struct net : model<input<float, 8>, relu, residual<linear<16>, linear<width>>, relu> {};
constexpr int layers = layers_of<net>;
