// Law 2: backward is the derivative of forward, for every layer.

#include <gpipe/device/host/gradient_check.hpp>

#include <doctest/doctest.h>

#include <gpipe/layer.hpp>

using namespace gpipe;

namespace {

template <class Layer, class In>
void holds() {
  for (const int samples : {1, 3, 7})
    for (const bool training : {true, false}) {
      const gradient_report report = check_gradient<Layer, In>({.samples = samples, .training = training});
      CAPTURE(type_name<Layer>);
      CAPTURE(samples);
      CAPTURE(training);
      CAPTURE(report.where);
      CAPTURE(report.worst);
      CHECK(report.passes());
    }
}

}  // namespace

TEST_CASE("add") { holds<add, bundle<tensor<double, 5>, tensor<double, 5>>>(); }

TEST_CASE("batch_norm") {
  holds<batch_norm<>, tensor<double, 9>>();
  holds<batch_norm<1, 1000>, tensor<double, 3, 5>>();
  holds<batch_norm<>, tensor<double, 2, 3, 4>>();
}

TEST_CASE("dropout") {
  holds<dropout<0>, tensor<double, 5>>();
  holds<dropout<10>, tensor<double, 3, 11>>();
  holds<dropout<75>, tensor<double, 16>>();
}

TEST_CASE("gelu") {
  holds<gelu, tensor<double, 9>>();
  holds<gelu, tensor<double, 2, 3, 5>>();
}

TEST_CASE("layer_norm") {
  holds<layer_norm, tensor<double, 9>>();
  holds<layer_norm, tensor<double, 3, 17>>();
}

TEST_CASE("linear") {
  holds<linear<5>, tensor<double, 7>>();
  holds<linear<1>, tensor<double, 1>>();
  holds<linear<34>, tensor<double, 2, 10>>();
}

TEST_CASE("relu") { holds<relu, tensor<double, 3, 7>>(); }

TEST_CASE("reshape") { holds<reshape<4, 3>, tensor<double, 12>>(); }

TEST_CASE("softmax_cross_entropy") {
  holds<softmax_cross_entropy, tensor<double, 10>>();
  holds<softmax_cross_entropy, tensor<double, 3, 17>>();
}
