// expect: a layer.s backward reads its input, but the layer does not keep it
// expect: backward_reads_a_kept_input<square, gpipe::tensor<float, 8>, false>
// errors: 1
#include <gpipe/device/host/context.hpp>
#include <gpipe/runtime/binding/kernel_table.hpp>

using namespace gpipe;
using namespace gpipe::detail;

struct square {
  template <class In>
  struct on {
    using output = In;
#ifndef GPIPE_FAIL
    static constexpr keep keeps{.input = true};
#endif
    static void forward(const auto&, const auto& a) { a.out()[0] = a.in()[0] * a.in()[0]; }
    static void backward_input(const auto&, const auto& a) { a.in_gradient()[0] = 2 * a.in()[0] * a.out_gradient()[0]; }
  };
};
struct net : model<input<float, 8>, square> {};
const auto* rows = kernels_of<net, host::context>;
