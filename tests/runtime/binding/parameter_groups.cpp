#include <gpipe/runtime/binding/parameter_groups.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <string>
#include <vector>

#include <gpipe/layer/activation/relu.hpp>
#include <gpipe/layer/linear/linear.hpp>
#include <gpipe/layer/loss/softmax_cross_entropy.hpp>
#include <gpipe/layer/normalization/batch_norm.hpp>
#include <gpipe/layer/normalization/layer_norm.hpp>
#include <gpipe/layer/normalization/rms_norm.hpp>
#include <gpipe/model/model.hpp>

using namespace gpipe;
using namespace gpipe::detail;

namespace {

// 0 linear, 1 layer_norm, 2 relu, 3 and 4 tied linear layers
struct net : model<input<float, 8>, linear<8>, layer_norm, relu, tied<"both", linear<8>>, tied<"both", linear<8>>,
                   softmax_cross_entropy> {};
const network& its = network_of<net>;

void refuses(const std::vector<parameter_group>& groups, const char* what) {
  CHECK_THROWS_WITH_AS(parameter_groups(its, groups), what, error);
}

}  // namespace

TEST_CASE("without groups a parameter has the optimizer's settings") {
  const parameter_groups none(its, {});
  CHECK(none.of(0, 0) == 0);
  CHECK(none.of(4, 1) == 0);
  CHECK(!none.frozen(0));
  CHECK(!none.frozen(2));  // a layer without parameters
}

TEST_CASE("the first group that matches counts") {
  const parameter_groups groups(its, {{.parameters = {"0.weight"}}, {.parameters = {"*"}}});
  CHECK(groups.of(0, 0) == 0);
  CHECK(groups.of(0, 1) == 1);
  CHECK(groups.of(1, 0) == 1);
  const parameter_groups others(its, {{.parameters = {"0.*"}}, {.parameters = {"*weight"}}});
  CHECK(others.of(0, 0) == 0);
  CHECK(others.of(1, 0) == 1);
}

TEST_CASE("biases and norms are left out of weight decay in one line") {
  const parameter_groups groups(its, {no_decay_for_biases_and_norms()});
  const int in_none = 1;
  CHECK(groups.of(0, 0) == in_none);
  CHECK(groups.of(0, 1) == 0);
  CHECK(groups.of(1, 0) == 0);
  CHECK(groups.of(1, 1) == 0);
  CHECK(groups.of(3, 0) == in_none);
  CHECK(groups.of(4, 1) == 0);
}

TEST_CASE("a layer type is named with or without its arguments") {
  CHECK(parameter_groups(its, {{.layers = {"linear"}}}).of(0, 0) == 0);
  CHECK(parameter_groups(its, {{.layers = {"linear<8>"}}}).of(0, 0) == 0);
  CHECK(parameter_groups(its, {{.layers = {"linear"}}}).of(1, 0) == 1);
}

TEST_CASE("a layer with settings of its own is named as the one without") {
  struct normalized : model<input<float, 8>, rms_norm_with<root_mean_square{.epsilon = 1e-3}>,
                            batch_norm_with<batch_statistics{.momentum = 0.5}>, linear<8>, softmax_cross_entropy> {};
  const network& norms = network_of<normalized>;
  const int in_none = 1;
  const parameter_groups groups(norms, {no_decay_for_biases_and_norms()});
  CHECK(groups.of(0, 0) == 0);
  CHECK(groups.of(1, 0) == 0);
  CHECK(groups.of(2, 0) == in_none);
  CHECK(parameter_groups(norms, {{.layers = {"rms_norm"}}}).of(0, 0) == 0);
  CHECK(parameter_groups(norms, {{.layers = {"rms_norm_with"}}}).of(0, 0) == 0);
}

TEST_CASE("tied parameters are in one group, whichever use a pattern names") {
  for (const char* path : {"3.weight", "4.weight"}) {
    const parameter_groups groups(its, {{.parameters = {path}, .frozen = true}});
    CHECK(groups.frozen(3, 0));
    CHECK(groups.frozen(4, 0));
    CHECK(!groups.frozen(3));  // the bias is trained
  }
  CHECK(parameter_groups(its, {{.parameters = {"4.*"}, .frozen = true}}).frozen(3));
}

TEST_CASE("a pattern that matches nothing is an error with the nearest name") {
  refuses(
      {{.parameters = {"0.weihgt"}}},
      "the pattern \"0.weihgt\" of a group matches no parameter; the nearest is \"0.weight\", or set .may_be_empty = "
      "true");
  refuses(
      {{.parameters = {"*"}, .layers = {"layer_mrom"}}},
      "the pattern \"layer_mrom\" of a group matches no layer with parameters; the nearest is \"layer_norm\", or set "
      ".may_be_empty = true");
  CHECK_NOTHROW(parameter_groups(its, {{.layers = {"relu"}, .may_be_empty = true}}));
}

TEST_CASE("a group whose parameters are all in earlier groups is refused, unless it may be empty") {
  const std::string remedy =
      " has no parameter: all that it matches, or tied uses of it, are in earlier groups; put the narrower group "
      "first, "
      "drop this one, or set .may_be_empty = true";
  refuses({{.parameters = {"*"}}, {.parameters = {"0.weight"}}}, ("groups[1]" + remedy).c_str());
  refuses({{.parameters = {"3.weight"}}, {.parameters = {"4.weight"}, .frozen = true}}, ("groups[1]" + remedy).c_str());
  CHECK_NOTHROW(parameter_groups(its, {{.parameters = {"*"}}, {.parameters = {"0.*"}, .may_be_empty = true}}));
}

TEST_CASE("settings out of range are refused by group, name and value") {
  refuses({{.rate_factor = 2}},
          "groups[0] has no pattern; give .parameters = {\"*.bias\"}, or .layers = {\"linear*\"}");
  refuses({{.parameters = {"*"}, .rate_factor = -1}}, "groups[0].rate_factor is -1; choose 0 or more");
  refuses({{.parameters = {"*"}}, {.parameters = {"*"}, .weight_decay = std::nan("")}},
          "groups[1].weight_decay is nan; choose 0 or more");
}
