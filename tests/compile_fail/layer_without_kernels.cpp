// expect: a layer lacks .static void forward
// expect: layer_has_forward<described, gpipe::tensor<float, 8>, false>
// expect: layer_has_backward_input<described, gpipe::tensor<float, 8>, false>
// expect: layer_has_update_state<described, gpipe::tensor<float, 8>, false>
// expect: layer_has_refresh<described, gpipe::tensor<float, 8>, false>
// errors: 4
#include <gpipe/device/host/context.hpp>
#include <gpipe/layer/activation/relu.hpp>
#include <gpipe/runtime/binding/kernel_table.hpp>

using namespace gpipe;
using namespace gpipe::detail;

struct described {
  template <class In>
  struct on {
    using output = In;
    static constexpr parameter state[] = {{"average", {8}}};
    static constexpr buffer derived[] = {{"table", 8, dtype::float32}};
#ifndef GPIPE_FAIL
    static void forward(const auto&, const auto&) {}
    static void backward_input(const auto&, const auto&) {}
    static void update_state(const auto&, const auto&) noexcept {}
    static void refresh(const auto&, const auto&) noexcept {}
#endif
  };
};
struct net : model<input<float, 8>, relu, described> {};
const auto* rows = kernels_of<net, host::context>;
