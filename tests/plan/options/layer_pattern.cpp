#include <gpipe/plan/options/layer_pattern.hpp>

#include <doctest/doctest.h>

#include <string>

#include <gpipe/layer/activation/relu.hpp>
#include <gpipe/layer/linear/linear.hpp>
#include <gpipe/layer/loss/softmax_cross_entropy.hpp>
#include <gpipe/layer/normalization/layer_norm.hpp>
#include <gpipe/model/model.hpp>

using namespace gpipe;
using namespace gpipe::detail;

namespace {

// Paths: h.0.ln, h.0.mlp.0, h.0.mlp.1, h.0, h.1.ln, ..., head, 2
struct net : model<input<float, 8>,
                   named<"h", repeat<2, residual<named<"ln", layer_norm>, named<"mlp", sequence<linear<8>, relu>>>>>,
                   named<"head", linear<4>>, softmax_cross_entropy> {};

std::string matching(const char* pattern) {
  std::string found;
  for (int l = 0; l < network_of<net>.layer_count; ++l)
    if (matches_layer(network_of<net>, pattern, l)) found += std::to_string(l);
  return found;
}

}  // namespace

TEST_CASE("a pattern is the path of a layer, of a group, or a type") {
  CHECK(matching("h.0.ln") == "0");
  CHECK(matching("h.1.mlp") == "56");
  CHECK(matching("h.1.mlp.1") == "6");
  CHECK(matching("h.0") == "0123");
  CHECK(matching("h") == "01234567");
  CHECK(matching("layer_norm") == "04");
  CHECK(matching("linear") == "158");
  CHECK(matching("linear<4>") == "8");
  CHECK(matching("add") == "37");
}

TEST_CASE("a star stands for any letters of one part") {
  CHECK(matching("h.*.mlp") == "1256");
  CHECK(matching("h.*.mlp.0") == "15");
  CHECK(matching("*.ln") == "");
  CHECK(matching("*.*.ln") == "04");
  CHECK(matching("h.*.m*") == "1256");
  CHECK(matching("*") == "0123456789");
  CHECK(matching("layer_*") == "04");
}

TEST_CASE("a part of a name matches nothing, nor does a pattern without letters") {
  for (const char* pattern : {"", "h.0.l", "h.0.mlp.", "hea", "headd", "h.2", "lin", ".h", "layer"}) {
    CAPTURE(pattern);
    CHECK(matching(pattern) == "");
  }
}

TEST_CASE("the first pattern that names no layer is returned, and a layer that cannot run again with its pattern") {
  bool marked[10]{};
  const auto mistakes = [&](const layer_patterns& patterns) { return mark_layers(network_of<net>, patterns, marked); };
  const pattern_mistakes none = mistakes({"h.*.ln", "relu"});
  CHECK((none.unused == nullptr && none.refused == -1 && none.refusing == nullptr));
  CHECK((marked[0] && !marked[1] && marked[2] && marked[4] && marked[6]));
  CHECK(std::string(mistakes({"relu", "gelu", "h.3"}).unused) == "gelu");
  const pattern_mistakes loss = mistakes({"relu", "softmax_*", "*"});
  CHECK(loss.unused == nullptr);
  CHECK(loss.refused == 9);
  CHECK(std::string(loss.refusing) == "softmax_*");
}

TEST_CASE("a list of layers has at most 16 patterns") {
  layer_patterns list;
  for (int i = 0; i < layer_patterns::max_count; ++i) list.add("relu");
  CHECK_THROWS_WITH_AS(list.add("relu"), "a list of layers has more than 16 patterns; use stars: \"h.*.mlp\"", error);
  CHECK(list == list);
  CHECK_FALSE(list == layer_patterns{"relu"});
}
