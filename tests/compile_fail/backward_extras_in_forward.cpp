// expect: a layer.s .backward_extras. live in its backward alone
// expect: only_backward_has_backward_extras<square, gpipe::tensor<float, 8>, false>
// errors: 1
#include <gpipe/device/host/context.hpp>
#include <gpipe/runtime/binding/kernel_table.hpp>

using namespace gpipe;
using namespace gpipe::detail;

struct square {
  template <class In>
  struct on {
    using output = In;
    static constexpr buffer backward_extras[] = {{"copy", 8, dtype::float32}};
    static constexpr keep keeps{.input = true};
    static void forward(const auto&, const auto& a) {
#ifdef GPIPE_FAIL
      a.backward_extra()[0] = 2;
#endif
      a.out()[0] = a.in()[0] * a.in()[0];
    }
    static void backward_input(const auto&, const auto& a) {
      a.backward_extra()[0] = 2 * a.in()[0];
      a.in_gradient()[0] = a.backward_extra()[0] * a.out_gradient()[0];
    }
  };
};
struct net : model<input<float, 8>, square> {};
const auto* rows = kernels_of<net, host::context>;
