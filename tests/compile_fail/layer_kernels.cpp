// expect: training needs kernels, and a layer lacks .static void backward_parameters
// expect: layer_has_backward_parameters<described, gpipe::tensor<float, 8>, false>
// errors: 1
#include <gpipe/device/host/context.hpp>
#include <gpipe/layer/activation/relu.hpp>
#include <gpipe/runtime/binding/kernel_table.hpp>

using namespace gpipe;
using namespace gpipe::detail;

// A model without kernels can be planned but not trained.
struct described {
  template <class In>
  struct on {
    using output = In;
    static constexpr parameter parameters[] = {{"weight", {8}}};
    static void forward(const auto&, const auto&) {}
    static void backward_input(const auto&, const auto&) {}
#ifndef GPIPE_FAIL
    static void backward_parameters(const auto&, const auto&) {}
#endif
  };
};
struct net : model<input<float, 8>, relu, described> {};
static_assert(layers_of<net> == 2);
const auto* rows = kernels_of<net, host::context>;
