#include <gpipe/tools/report/layer_report.hpp>

#include <doctest/doctest.h>

#include <sstream>
#include <string>
#include <vector>

#include <gpipe/core/error.hpp>
#include <gpipe/layer/activation/gelu.hpp>
#include <gpipe/layer/linear/linear.hpp>
#include <gpipe/model/model.hpp>

using namespace gpipe;

namespace {

struct net : model<input<float, 64>, linear<64>, gelu, linear<64>, gelu> {};

// A product of 4 samples has 3 x 32768 operations and some for the bias, gelu 4 x 64 x 21.
std::string report_of(std::int64_t product_ns, std::int64_t gelu_ns, double peak, int group_gradients = 1) {
  const std::vector<measured_layer> lines{{0, "linear<64>", product_ns, product_ns, product_ns},
                                          {1, "gelu", gelu_ns / 2, gelu_ns / 2, 0},
                                          {2, "linear<64>", product_ns, product_ns, product_ns},
                                          {3, "gelu", gelu_ns / 2, gelu_ns / 2, 0}};
  std::ostringstream out;
  write_layers(out, network_of<net>, {lines.data(), 4, 4}, peak, group_gradients);
  return out.str();
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("each layer has its line: time, share, operations per second, share of the peak") {
  const std::string text = report_of(1000, 2000, 100e9);
  CHECK(has(text, "layer        name   share  forward  input part  parameter part  GFLOP/s  of the peak\n"));
  CHECK(has(text, "    2  linear<64>  30.0 %   1.0 us      1.0 us          1.0 us     32.9       32.9 %\n"));
  CHECK(has(text, "    3        gelu  20.0 %   1.0 us      1.0 us          0.0 us      2.7        2.7 %\n"));
}

TEST_CASE("a part that did not run, such as the input part of the first layer, has no operations") {
  const std::vector<measured_layer> lines{{0, "linear<64>", 1000, 0, 1000},
                                          {1, "gelu", 1000, 1000, 0},
                                          {2, "linear<64>", 1000, 1000, 0},
                                          {3, "gelu", 1000, 1000, 0}};
  std::ostringstream out;
  write_layers(out, network_of<net>, {lines.data(), 4, 4}, 100e9);
  CHECK(has(out.str(), "   0  linear<64>  25.0 %   1.0 us      0.0 us          1.0 us     33.0       33.0 %\n"));
  CHECK(has(out.str(), "   2  linear<64>  25.0 %   1.0 us      1.0 us          0.0 us     32.9       32.9 %\n"));
}

TEST_CASE("the layers that lose the most time are named, with a remedy") {
  const std::string products = report_of(10'000, 100, 100e9), moves = report_of(330, 20'000, 100e9);
  CHECK(has(products, "linear<64> (2 layers) loses the most time: 96.4 % of the total; its weights are read"));
  CHECK(has(products,
            "for every micro-batch of 4 samples, and their gradients are written (with fill-drain, no recompute"));
  CHECK(has(report_of(10'000, 100, 100e9, 8), "4 samples, and their gradients are written for every 8: use fewer"));
  CHECK(has(moves, "gelu (2 layers) loses the most time"));
  CHECK(has(moves, "-march=native"));
}

TEST_CASE("without a peak there is no remedy, and a profile of another model is rejected") {
  CHECK_FALSE(has(report_of(1000, 1000, 0), "loses the most time"));
  CHECK(has(report_of(1000, 1000, 0), "  -\n"));
  CHECK_FALSE(has(report_of(0, 0, 1e9), "nan"));
  const measured_layer other{0, "relu", 1, 1, 1};
  std::ostringstream out;
  CHECK_THROWS_AS(write_layers(out, network_of<net>, {&other, 1, 4}, 1e9), error);
}
