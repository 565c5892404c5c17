// expect: a layer has no .on<Input>. for the output of the layer before it: the layer takes integers, such as tokens, and its input is of floating point
// errors: 1
#include <gpipe/layer/attention/embedding.hpp>
#include <gpipe/model/model.hpp>

using namespace gpipe;

#ifdef GPIPE_FAIL
struct net : model<input<float, 8>, embedding<16, 4>> {};
#else
struct net : model<input<std::int32_t, 8>, embedding<16, 4>> {};
#endif
constexpr int layers = layers_of<net>;
