#include <gpipe/tools/report/model_summary.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include <gpipe/layer.hpp>
#include <gpipe/make_plan.hpp>
#include <gpipe/model/transformer.hpp>

using namespace gpipe;

namespace {

struct net : model<input<float, 8>, linear<8>, batch_norm<>,
                   named<"h", repeat<2, residual<named<"ln_1", layer_norm>, named<"fc", tied<"fc", linear<8>>>>>>,
                   linear<4>, softmax_cross_entropy> {};

bool has(const std::string& text, const std::string& line) { return text.find(line) != std::string::npos; }

}  // namespace

TEST_CASE("a model prints a line for each layer, with its path, type, output, parameters and share") {
  const std::string text = summary<net>();
  CHECK(text.find("    path                  layer  output  parameters   share\n") == 0);
  CHECK(has(text, "\n       0              linear<8>       8          72  18.9 %\n"));
  CHECK(has(text, "\nh.0.ln_1             layer_norm       8          16 "));
  CHECK(has(text, "\n  h.1.fc              linear<8>       8        tied "));
  CHECK(has(text, "\n     h.1                    add       8           - "));
  CHECK(has(text, "\n       4  softmax_cross_entropy       -           - "));
  CHECK(has(text,
            "\n10 layers, 228 parameters (912 B of float), 16 numbers of state, "
            "748 operations forward a sample\n"));
  CHECK(std::count(text.begin(), text.end(), '\n') == 12);
  CHECK(text == summary(network_of<net>));
}

TEST_CASE("with a plan it has the stage of each layer, and shares of the predicted time") {
  const plan_options options{
      .stages = 3, .micro_batches = 2, .micro_batch_size = 2, .recompute = recompute_mode::except_last};
  const step_plan plan = make_plan(network_of<net>, options, {3, 6});
  const std::string text = summary(network_of<net>, plan);
  CHECK(has(text, "  share  stage\n       0 "));
  CHECK(has(text, "\nh.0.ln_1             layer_norm       8          16  10.7 %      0\n"));
  CHECK(has(text, "\n  h.0.fc              linear<8>       8          72  11.0 %      1\n"));
  CHECK(has(text, "\n       4  softmax_cross_entropy       -           -   7.8 %      2\n10 layers in 3 stages, "));
}

TEST_CASE("outputs have all extents, and types other than float") {
  const std::string text = summary<transformer<2, 16, 8, 32, 2, 100>>();
  CHECK(has(text, " embedding<100, 8>  16 x 8 "));
  struct halves : model<input<bf16, 2, 3>, linear<4>, relu> {};
  CHECK(has(summary<halves>(), "linear<4>  2 x 4 bf16 "));
}

TEST_CASE("a layer that shares its weight alone has its own parameters, and others") {
  struct shared : model<input<float, 8>, tied<"w", linear<8, no_bias>>, tied<"w", linear<8>>> {};
  const std::string text = summary<shared>();
  CHECK(has(text, "linear<8, gpipe::no_bias>       8          64 "));
  CHECK(has(text, "linear<8>       8    8 + tied "));
  CHECK(has(text, "2 layers, 72 parameters (288 B of float)"));
}
