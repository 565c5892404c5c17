// expect: from<.*inputs.*, ...> has the name of the model.s first input
// expect: further_input_has_a_name<gpipe::broken::position<0>,.*gpipe::from<
// errors: 1
#include <gpipe/layer/shape/concat.hpp>
#include <gpipe/model/model.hpp>

using namespace gpipe;

#ifdef GPIPE_FAIL
struct net : model<input<float, 8>, from<"inputs", tensor<float, 2>>, concat<>> {};
#else
struct net : model<input<float, 8>, from<"more", tensor<float, 2>>, concat<>> {};
#endif
constexpr int layers = layers_of<net>;
