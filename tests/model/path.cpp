#include <gpipe/model/path.hpp>

#include <doctest/doctest.h>

#include <set>
#include <string>

#include <gpipe/layer.hpp>
#include <gpipe/model/transformer.hpp>

using namespace gpipe;
using namespace gpipe::detail;

namespace {

struct net : model<input<float, 8>, linear<8>, batch_norm<>,
                   named<"h", repeat<12, residual<named<"ln_1", layer_norm>, named<"fc", tied<"fc", linear<8>>>>>>,
                   repeat<3, linear<8>>, named<"", named<"fc", linear<8>>>, softmax_cross_entropy> {};

std::string wrong(std::string_view path) {
  try {
    find_path(network_of<net>, path);
  } catch (const error& e) {
    return e.what();
  }
  return "nothing";
}

}  // namespace

TEST_CASE_TEMPLATE("each parameter and state has one path, by which it is found", Model, net, transformer<24>) {
  const network& of = network_of<Model>;
  std::set<std::string> paths;
  std::size_t arrays = 0;
  for_each_array(of, [&](const named_array& which) {
    ++arrays;
    const std::string path = path_of(of, which);
    CHECK(paths.insert(path).second);
    const named_array found = find_path(of, path);
    CHECK(found.layer_index == which.layer_index);
    CHECK(found.index == which.index);
    CHECK(found.kind == which.kind);
  });
  CHECK(paths.size() == arrays);
}

TEST_CASE("a path joins the layer's and the parameter's name") {
  const network& of = network_of<net>;
  CHECK(path_of(of, 0) == "0");
  CHECK(path_of(of, {0, 1, array_kind::parameter}) == "0.bias");
  CHECK(path_of(of, {1, 0, array_kind::state}) == "1.running_mean");
  CHECK(path_of(of, {1, 1, array_kind::state}) == "1.running_var");
  CHECK(path_of(of, {2 + 11 * 3 + 1, 0, array_kind::parameter}) == "h.11.fc.weight");
  CHECK(find_path(of, "h.11.ln_1.bias").layer_index == 2 + 11 * 3);
  CHECK(path_of(network_of<transformer<1>>, {4, 0, array_kind::parameter}) == "1.0.1.0.weight");
  CHECK(path_of(network_of<transformer<1>>, {5, 0, array_kind::parameter}) == "1.0.1.1.linear1.weight");
}

TEST_CASE("a path that the model lacks is an error with the nearest path") {
  CHECK(wrong("h.0.ln_1.wieght") ==
        "the model has no parameter or state at \"h.0.ln_1.wieght\"; did you mean \"h.0.ln_1.weight\"?");
  CHECK(wrong("1.running_men").find("did you mean \"1.running_mean\"?") != std::string::npos);
  CHECK(wrong("1.mean").find("no parameter or state") != std::string::npos);
  CHECK(wrong("@").find("its paths: 0.weight, 0.bias, ") != std::string::npos);
  for (const char* path : {"", ".", "0", "0.", "0.weight.", ".0.weight", "00.weight", "+0.weight", "h.12.fc.weight",
                           "h.fc.weight", "h.00.fc.weight", "h.-1.fc.weight", "3.3.weight", "99999999999.weight"})
    CHECK_MESSAGE(wrong(path).starts_with("the model has no parameter or state at"), path);
}

TEST_CASE("a parameter is not read as state, nor state as a parameter") {
  const network& of = network_of<net>;
  CHECK(find_path(of, "0.weight", array_kind::parameter).layer_index == 0);
  CHECK(find_path(of, "1.running_var", array_kind::state).index == 1);
  CHECK_THROWS_AS(find_path(of, "0.weight", array_kind::state), error);
  CHECK_THROWS_AS(find_path(of, "1.running_var", array_kind::parameter), error);
}
