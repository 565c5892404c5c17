// expect: a kernel uses a parameter or a state of this Index, counted from 0, and the layer declares fewer
// expect: kernel_uses_what_is_declared<shifted
// errors: 1
#include <gpipe/device/host/context.hpp>
#include <gpipe/layer/loss/softmax_cross_entropy.hpp>
#include <gpipe/model/model.hpp>
#include <gpipe/runtime/binding/kernel_table.hpp>

using namespace gpipe;

struct shifted {
  template <class In>
  struct on;
  template <class T, int N>
  struct on<tensor<T, N>> {
    using output = tensor<T, N>;
#ifdef GPIPE_FAIL
    static constexpr parameter params[] = {{ "shift", { N } }};
#else
    static constexpr parameter parameters[] = {{"shift", {N}}};
#endif
    struct sum {
      const T *x, *shift;
      T* y;
      GPIPE_HOST_DEVICE void operator()(std::ptrdiff_t i) const { y[i] = x[i] + shift[i % N]; }
    };
    static void forward(const auto& c, const auto& a) {
      c.each(a.samples() * N, sum{a.in(), a.template parameter<0>(), a.out()});
    }
    static void backward_input(const auto& c, const auto& a) {
      c.copy(a.samples() * N, a.out_gradient(), a.in_gradient());
    }
    static void backward_parameters(const auto&, const auto&) {}
  };
};
struct net : model<input<float, 8>, shifted, softmax_cross_entropy> {};
const auto* kernels = gpipe::detail::kernels_of<net, host::context>;
