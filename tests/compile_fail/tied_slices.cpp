// expect: A slice of a head needs a first layer that has all of its rows
// expect: tied_parameters_match<gpipe::broken::position<3
// expect: gpipe::broken::here<gpipe::tensor<float, 3, 8>
// expect: gpipe::broken::first<gpipe::tensor<float, 8, 8>
// errors: 1
#include <gpipe/layer/attention/embedding.hpp>
#include <gpipe/layer/attention/token_head.hpp>
#include <gpipe/model/model.hpp>

using namespace gpipe;

#ifdef GPIPE_FAIL
constexpr int words = 8;
#else
constexpr int words = 9;
#endif
struct net : model<input<std::int32_t, 4>, tied<"wte", embedding<words, 8>>, tied<"wte", token_head<9, slices<3>>>> {};
static_assert(layers_of<net> > 0);
