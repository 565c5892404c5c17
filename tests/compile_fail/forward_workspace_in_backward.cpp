// expect: a layer.s .forward_workspace. is memory of its forward alone
// expect: only_forward_has_forward_workspace<square, gpipe::tensor<float, 8>, false>
// errors: 1
#include <gpipe/device/host/context.hpp>
#include <gpipe/runtime/binding/kernel_table.hpp>

using namespace gpipe;
using namespace gpipe::detail;

struct square {
  template <class In>
  struct on {
    using output = In;
    static constexpr buffer forward_workspace[] = {{"copy", 8, dtype::float32}};
    static constexpr keep keeps{.input = true};
    static void forward(const auto&, const auto& a) {
      a.forward_workspace()[0] = a.in()[0];
      a.out()[0] = a.forward_workspace()[0] * a.in()[0];
    }
    static void backward_input(const auto&, const auto& a) {
#ifdef GPIPE_FAIL
      a.forward_workspace()[0] = 2;
#endif
      a.in_gradient()[0] = 2 * a.in()[0] * a.out_gradient()[0];
    }
  };
};
struct net : model<input<float, 8>, square> {};
const auto* rows = kernels_of<net, host::context>;
