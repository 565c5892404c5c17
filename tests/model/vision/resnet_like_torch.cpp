// A ResNet of 18 layers with small widths trains as PyTorch's.

#include <gpipe/model/vision/resnet.hpp>

#include <doctest/doctest.h>

#include "support/trained_like_torch.hpp"

using namespace gpipe;
namespace known = reference::vision_networks;

namespace {

template <int Width, int Stride>
using group = detail::stacked<2, basic_block<Width, Stride, (Stride > 1)>, basic_block<Width>>;

template <class T>
struct net : model<input_image<T, 3, known::resnet::height, known::resnet::width>, detail::resnet_conv<6, 7, 2>,
                   batch_norm<>, relu, max_pool<3, pool_options{.stride = 2, .padding = 1}>, group<6, 1>, group<8, 2>,
                   group<10, 2>, group<12, 2>, global_average_pool, linear<known::classes>, softmax_cross_entropy> {};

constexpr laws::torch_training want{known::resnet::height, known::resnet::width,    known::resnet::rate,
                                    known::resnet::losses, known::resnet::products, known::resnet::averages};

}  // namespace

TEST_CASE("three steps of a ResNet have PyTorch's losses, parameters and averages, in double") {
  for (const int stages : {1, 3}) laws::trains_like_torch<net<double>, double>(want, stages);
}

TEST_CASE("the same in float") { laws::trains_like_torch<net<float>, float>(want, 2); }
