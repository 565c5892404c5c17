#pragma once

#include <type_traits>
#include <utility>

#include <gpipe/layer/activation/relu.hpp>
#include <gpipe/layer/contract/initialized.hpp>
#include <gpipe/layer/convolution/conv2d.hpp>
#include <gpipe/layer/linear/linear.hpp>
#include <gpipe/layer/loss/softmax_cross_entropy.hpp>
#include <gpipe/layer/normalization/batch_norm.hpp>
#include <gpipe/layer/pooling/global_average_pool.hpp>
#include <gpipe/layer/pooling/max_pool.hpp>
#include <gpipe/layer/shape/add.hpp>
#include <gpipe/model/model.hpp>

namespace gpipe {

namespace detail {

/// A convolution of ResNet: padding keeps the image, a batch norm follows, so it has no bias.
template <int Out, int Kernel, int Stride = 1>
using resnet_conv =
    initialized<conv2d<Out, Kernel, conv_options{.stride = Stride, .padding = Kernel / 2, .bias = false}>,
                initializer::kaiming()>;

// change: a shipped model
/// x in the shape of the block's sum: through a convolution where the width or the image changes.
template <int Out, int Stride, bool Projects>
struct resnet_shortcut : sequence<stash<"sum">, only<pop<"x">>,
                                  named<"downsample", resnet_conv<Out, 1, Stride>, batch_norm<>>, pop<"sum">, add> {};
template <int Out, int Stride>
struct resnet_shortcut<Out, Stride, false> : sequence<pop<"x">, add> {};

/// `First` and then `Rest` N - 1 times, with an index each.
template <class First, class Rest, class Indices>
struct stacked_items;
template <class First, class Rest, std::size_t... Indices>
struct stacked_items<First, Rest, std::index_sequence<Indices...>> {
  template <std::size_t>
  using other = Rest;
  using type = sequence<First, other<Indices>...>;
};
template <int N, class First, class Rest>
using stacked = typename stacked_items<First, Rest, std::make_index_sequence<std::size_t{N - 1}>>::type;

}  // namespace detail

/// ResNet's block of two convolutions (ResNet-18, -34).
template <int Width, int Stride = 1, bool Projects = false>
struct basic_block : scope<stash<"x">,                                                                               //
                           named<"conv1", detail::resnet_conv<Width, 3, Stride>>, named<"bn1", batch_norm<>>, relu,  //
                           named<"conv2", detail::resnet_conv<Width, 3>>, named<"bn2", batch_norm<>>,                //
                           named<"", detail::resnet_shortcut<Width, Stride, Projects>>, relu> {
  static constexpr int out = Width;
};

/// ResNet's block of three: narrow, 3 x 3, and four times as wide (ResNet-50, -101, -152). The stride is on the 3 x 3.
template <int Width, int Stride = 1, bool Projects = false>
struct bottleneck : scope<stash<"x">,                                                                               //
                          named<"conv1", detail::resnet_conv<Width, 1>>, named<"bn1", batch_norm<>>, relu,          //
                          named<"conv2", detail::resnet_conv<Width, 3, Stride>>, named<"bn2", batch_norm<>>, relu,  //
                          named<"conv3", detail::resnet_conv<4 * Width, 1>>, named<"bn3", batch_norm<>>,            //
                          named<"", detail::resnet_shortcut<4 * Width, Stride, Projects>>, relu> {
  static constexpr int out = 4 * Width;
};

namespace detail {

/// The number of blocks of a group.
constexpr int resnet_count(int depth, int group) {
  const int counts[] = {depth == 18 ? 2 : 3, depth == 18 ? 2 : depth == 152 ? 8 : 4, 0, depth == 18 ? 2 : 3};
  const int third = depth == 18 ? 2 : depth == 101 ? 23 : depth == 152 ? 36 : 6;
  return group == 2 ? third : counts[group];
}

template <int Depth, int Width, int Stride, bool Projects>
using resnet_block =
    std::conditional_t<(Depth >= 50), bottleneck<Width, Stride, Projects>, basic_block<Width, Stride, Projects>>;
template <int Depth, int Group, int Width, int Stride>
using resnet_group =
    stacked<resnet_count(Depth, Group), resnet_block<Depth, Width, Stride, (Stride > 1 || Depth >= 50)>,
            resnet_block<Depth, Width, 1, false>>;

}  // namespace detail

/// ResNet (He, Zhang, Ren, Sun, 2015) as torchvision builds it: resnet<18>, 34, 50, 101, 152. Its paths are
/// torchvision's names, such as layer1.0.conv1.weight; `torchvision_resnet()` maps the layouts of its files.
///
///     image {3, Side, Side} -> 7 x 7, stride 2 -> max pool -> four groups, 64 ... 512 wide -> mean -> classes
///
///     parameters: 11,689,512  21,797,672  25,557,032  44,549,160  60,192,808
template <int Depth, int Classes = 1000, int Side = 224, class T = float>
struct resnet : model<input_image<T, 3, Side, Side>,                                                    //
                      named<"conv1", detail::resnet_conv<64, 7, 2>>, named<"bn1", batch_norm<>>, relu,  //
                      max_pool<3, pool_options{.stride = 2, .padding = 1}>,                             //
                      named<"layer1", detail::resnet_group<Depth, 0, 64, 1>>,                           //
                      named<"layer2", detail::resnet_group<Depth, 1, 128, 2>>,                          //
                      named<"layer3", detail::resnet_group<Depth, 2, 256, 2>>,                          //
                      named<"layer4", detail::resnet_group<Depth, 3, 512, 2>>,                          //
                      global_average_pool, named<"fc", linear<Classes>>, softmax_cross_entropy> {
  static_assert(Depth == 18 || Depth == 34 || Depth == 50 || Depth == 101 || Depth == 152,
                "gpipe: resnet<Depth>: Depth must be 18, 34, 50, 101 or 152");
};

}  // namespace gpipe
