// sanitizers: address

#include "../examples/plan/stretched.hpp"

#include <doctest/doctest.h>

#include <gpipe/make_plan.hpp>
#include <gpipe/model/encoder_decoder.hpp>
#include <gpipe/model/gpt2.hpp>
#include <gpipe/model/transformer.hpp>
#include <gpipe/model/vision/amoebanet.hpp>
#include <gpipe/model/vision/unet.hpp>
#include <gpipe/plan.hpp>

using namespace gpipe;
using namespace example;

namespace {

/// Whether two networks of equal layers have the same layers, values and reads.
void is(const network& made, const network& compiled) {
  REQUIRE(made.layer_count == compiled.layer_count);
  REQUIRE(made.value_count == compiled.value_count);
  REQUIRE(made.read_count == compiled.read_count);
  CHECK(made.parameters() == compiled.parameters());
  int different = 0;
  for (int l = 0; l < made.layer_count; ++l) {
    const gpipe::detail::expanded_layer &a = made.layers[l], &b = compiled.layers[l];
    different += a.first_read != b.first_read || a.reads != b.reads || a.first_write != b.first_write ||
                 a.writes != b.writes || a.tied != b.tied || made.type_of(l).name != compiled.type_of(l).name;
    for (int p = 0; p < made.type_of(l).parameter_count; ++p) different += made.owner(l, p) != compiled.owner(l, p);
  }
  for (int r = 0; r < made.read_count; ++r)
    different += made.reads[r].value != compiled.reads[r].value ||
                 made.reads[r].layer_index != compiled.reads[r].layer_index || made.readers[r] != compiled.readers[r];
  for (int v = 0; v < made.value_count; ++v) {
    const gpipe::detail::value &a = made.values[v], &b = compiled.values[v];
    different += a.writer != b.writer || a.gradient != b.gradient || a.part.size != b.part.size ||
                 a.first_reader != b.first_reader || a.readers != b.readers || a.below != b.below;
  }
  CHECK(different == 0);
}

template <class Small, class Large>
void stretches(std::size_t repeats, int more) {
  const network& from = network_of<Small>;
  const auto parts = repetitions_of(from);
  CHECK(parts.size() == repeats);
  const stretched longer(from, parts, more);
  is(longer.net(), network_of<Large>);
  const plan_options o{.stages = 3, .micro_batches = 4, .micro_batch_size = 2};
  const step_plan a = make_plan(longer.net(), o), b = make_plan(network_of<Large>, o);
  CHECK(a.first == b.first);
  for (int s = 0; s < 3; ++s) CHECK(a.memory(s).total() == b.memory(s).total());
}

constexpr amoebanet_options small{.classes = 5, .side = 32, .channels = 1};

}  // namespace

TEST_CASE("a stretched network is the compiled one of that depth") {
  stretches<amoebanet_d<12, 16, small>, amoebanet_d<18, 16, small>>(3, 2);
  stretches<amoebanet_d<12, 16, small>, amoebanet_d<12, 16, small>>(3, 0);
  stretches<unet<4, 4, 32>, unet<7, 4, 32>>(11, 3);
  stretches<transformer<2, 8, 16, 32, 2, 20>, transformer<5, 8, 16, 32, 2, 20>>(1, 3);
  constexpr encoder_decoder_options few{.source_tokens = 8, .vocabulary = 20, .width = 8, .head_width = 4};
  stretches<encoder_decoder<3, 16, 2, few>, encoder_decoder<5, 16, 2, few>>(2, 2);
  stretches<gpt2<2, 64, 1, 8, 20>, gpt2<4, 64, 1, 8, 20>>(1, 2);
}
