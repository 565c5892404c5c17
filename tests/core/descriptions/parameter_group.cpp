#include <gpipe/core/descriptions/parameter_group.hpp>

#include <doctest/doctest.h>

#include <gpipe/core/text/suggestion.hpp>

using namespace gpipe;

TEST_CASE("the usual exception from weight decay takes biases and norms, and no other weights") {
  const parameter_group group = no_decay_for_biases_and_norms();
  CHECK(group.weight_decay == 0.0);
  CHECK(group.rate_factor == 1);
  CHECK(!group.frozen);
  REQUIRE(group.parameters.size() == 1);
  REQUIRE(group.layers.size() == 1);
  for (const char* path : {"0.bias", "h.0.attn.in_proj_bias"}) CHECK(detail::matches(group.parameters[0], path));
  CHECK(!detail::matches(group.parameters[0], "0.weight"));
  for (const char* layer : {"layer_norm", "batch_norm", "rms_norm"}) CHECK(detail::matches(group.layers[0], layer));
  CHECK(!detail::matches(group.layers[0], "linear"));
}
