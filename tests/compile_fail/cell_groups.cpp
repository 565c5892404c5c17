// expect: groups must divide its input channels and its output channels
// expect: groups_divide_channels<gpipe::conv_transpose2d<4, .*gpipe::feature_map<float, 6, 8, 8>, false,
// expect: gpipe::broken::position<2, gpipe::broken::path<'u', 'p', '.', '1'>, block ?>
// errors: 1
#include <gpipe/layer.hpp>
#include <gpipe/model/model.hpp>

using namespace gpipe;

#ifdef GPIPE_FAIL
constexpr int groups = 3;  // divides 6, but not 4
#else
constexpr int groups = 2;
#endif
struct block : sequence<relu, initialized<conv_transpose2d<4, 2, conv_options{.stride = 2, .groups = groups}>,
                                          initializer::xavier()>> {};
struct net : model<input_image<float, 3, 8, 8>, conv2d<6, 1>, named<"up", block>> {};
constexpr int layers = layers_of<net>;
