// expect: a layer has no .on<Input>. for the output of the layer before it: change the shape or type of one of the two
// expect: position<7, gpipe::broken::path<'c', 'e', 'l', 'l', '1', '.', [^>]*>, cell<4>,
// expect: before_stash<'3'>, conv_1x7<5> ?>, gpipe::add, gpipe::bundle<gpipe::feature_map<float, 5, 2, 3>, gpipe::
// errors: 1
#include <gpipe/layer.hpp>
#include <gpipe/model/model.hpp>

using namespace gpipe;

// An operation of a cell whose convolution makes a channel more than there is in the sum.
template <int C>
struct conv_1x7
    : scope<stash<"in">, relu, conv2d<C, height_width{1, 7}, conv_options{.padding = same_padding}>, pop<"in">, add> {};
template <int C>
struct cell : scope<stash<"before", "earlier">,                           //
                    only<pop<"before">>, conv2d<C, 1>, relu, stash<"0">,  //
                    only<pop<"earlier">>, conv2d<C, 1>, stash<"1">,       //
#ifdef GPIPE_FAIL
                    scope<only<pop<"0">>, conv_1x7<C + 1>, pop<"1">, add>, stash<"3">,  //
#else
                    scope<only<pop<"0">>, conv_1x7<C>, pop<"1">, add>, stash<"3">,  //
#endif
                    only<pop<"3">>, pop<"before">> {
};
struct net
    : model<input_image<float, 4, 2, 3>, conv2d<4, 1>, relu, stash<"x">, pop<"x">, named<"cell1", repeat<2, cell<4>>>,
            stash<"out", "">, only<pop<"out">>, global_average_pool, linear<3>, softmax_cross_entropy> {};
constexpr int layers = layers_of<net>;
