// AmoebaNet-D (3, 16) trains as PyTorch's.

#include <gpipe/model/vision/amoebanet.hpp>

#include <doctest/doctest.h>

#include "support/trained_like_torch.hpp"

using namespace gpipe;
namespace known = reference::vision_networks;

namespace {

static_assert(known::amoebanet::height == known::amoebanet::width);
template <class T>
struct net : amoebanet_d<3, 16, amoebanet_options{.classes = known::classes, .side = known::amoebanet::height}, T> {};

constexpr laws::torch_training want{known::amoebanet::height, known::amoebanet::width,    known::amoebanet::rate,
                                    known::amoebanet::losses, known::amoebanet::products, known::amoebanet::averages};

}  // namespace

TEST_CASE("three steps of AmoebaNet-D have PyTorch's losses, parameters and averages, in double") {
  for (const int stages : {1, 3}) laws::trains_like_torch<net<double>, double>(want, stages);
}

TEST_CASE("the same in float") { laws::trains_like_torch<net<float>, float>(want, 2); }
