// expect: a layer has no .on<Input>. for the output of the layer before it: the layer takes a tensor, and its input is a feature map. Put flatten
// expect: a layer has no .on<Input>. for the output of the layer before it: the layer takes a feature map, and its input is a tensor
// expect: a layer has no .on<Input>. for the output of the layer before it: the layer takes integers, such as tokens, and its input is of floating point
// expect: a layer has no .on<Input>. for the output of the layer before it: the layer takes floating point, and its input is of integers
// expect: a layer has no .on<Input>. for the output of the layer before it: there is no tensor, because that layer is a loss
// expect: a layer has no .on<Input>. for the output of the layer before it: the layer takes several tensors, and there is one
// expect: a layer has no .on<Input>. for the output of the layer before it: the layer takes one tensor, and there are several. Put add
// expect: layer_accepts_input<gpipe::broken::position<1>, gpipe::conv2d<4, .*gpipe::tensor<float, 3, 8, 8>, false>
// expect: layer_accepts_input<gpipe::broken::position<1>, gpipe::group_norm<32>, gpipe::tensor<float, 64>, false>
// expect: layer_accepts_input<gpipe::broken::position<1>, gpipe::embedding<16, 4>, gpipe::tensor<float, 8>, false>
// errors: 11
#include <gpipe/layer.hpp>
#include <gpipe/model/model.hpp>

using namespace gpipe;

template <class... Items>
struct numbers : model<input<float, 8>, Items...> {};
template <class... Items>
struct tokens : model<input<std::int32_t, 8>, Items...> {};
template <class... Items>
struct image : model<input_image<float, 1, 8, 8>, Items...> {};

#ifdef GPIPE_FAIL
constexpr int layers[] = {layers_of<image<conv2d<4, 3>, linear<10>>>,
                          layers_of<model<input<float, 1, 8, 8>, conv2d<4, 3>>>,
                          layers_of<model<input<float, 784>, conv2d<4, 3>>>,
                          layers_of<model<input<float, 3, 8, 8>, relu, conv2d<4, 3>>>,
                          layers_of<model<input<float, 64>, relu, group_norm<32>>>,
                          layers_of<numbers<embedding<16, 4>>>,
                          layers_of<numbers<linear<8>, embedding<16, 4>>>,
                          layers_of<tokens<linear<4>, softmax_cross_entropy>>,
                          layers_of<numbers<softmax_cross_entropy, linear<4>>>,
                          layers_of<numbers<relu, add>>,
                          layers_of<numbers<stash<"x">, relu, pop<"x">, linear<4>>>};
#else
constexpr int layers[] = {layers_of<image<conv2d<4, 3>, flatten, linear<10>>>,
                          layers_of<image<conv2d<4, 3>>>,
                          layers_of<model<input_image<float, 1, 28, 28>, conv2d<4, 3>>>,
                          layers_of<model<input_image<float, 3, 8, 8>, relu, conv2d<4, 3>>>,
                          layers_of<model<input_image<float, 64, 1, 1>, relu, group_norm<32>>>,
                          layers_of<tokens<embedding<16, 4>>>,
                          layers_of<numbers<linear<4>, softmax_cross_entropy>>,
                          layers_of<numbers<auxiliary<"early", 0.4, softmax_cross_entropy>, linear<4>>>,
                          layers_of<numbers<stash<"x">, relu, pop<"x">, add>>,
                          layers_of<numbers<stash<"x">, relu, pop<"x">, add, linear<4>>>};
#endif
