// sanitizers: none

// Every compiler, nvcc too, takes the models that ship and what their descriptions are made of. This file compiles, or
// it does not.

#include <gpipe/model/encoder_decoder.hpp>
#include <gpipe/model/gpt2.hpp>
#include <gpipe/model/transformer.hpp>
#include <gpipe/model/vision/amoebanet.hpp>
#include <gpipe/model/vision/resnet.hpp>
#include <gpipe/model/vision/unet.hpp>
#include <gpipe/plan.hpp>

#include <doctest/doctest.h>

using namespace gpipe;

namespace {

static_assert(network_of<transformer<2>>.parameters() > 0);
static_assert(network_of<gpt2<12, 768>>.parameters() == 124'439'808);
static_assert(network_of<encoder_decoder<6, 8192, 16>>.parameters() == 408'141'824);
static_assert(network_of<resnet<18>>.parameters() == 11'689'512);
static_assert(network_of<unet<2, 4>>.parameters() > 0);

// Cells with names for states, and a cut through them.
using cells = plan<amoebanet_d<3, 16>, stages<3>, micro_batches<8>, micro_batch_size<2>>;
static_assert(cells::cut().first[1] > 0);

struct renamed : model<input<float, 8>, linear<8>, with_field<"labels", "genre", softmax_cross_entropy>> {};
static_assert(layers_of<renamed> == 2);

}  // namespace

// change: a shipped model
TEST_CASE("every shipped model has a table of layers") { CHECK(network_of<amoebanet_d<3, 16>>.type_count > 0); }
