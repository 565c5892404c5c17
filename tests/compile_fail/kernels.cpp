// expect: a layer.s .backward_extras. live in its backward alone
// expect: only_backward_has_backward_extras<extra_in_forward, gpipe::tensor<float, 8>, false>
// expect: a layer.s backward reads its input, but the layer does not keep it
// expect: backward_reads_a_kept_input<unkept, gpipe::tensor<float, 8>, false>
// expect: a layer.s workspace is memory of its backward and of .decode.
// expect: forward_has_no_workspace<workspace_in_forward, gpipe::tensor<float, 8>, false>
// expect: a layer.s .forward_workspace. is memory of its forward alone
// expect: only_forward_has_forward_workspace<forward_workspace_in_backward, gpipe::tensor<float, 8>, false>
// expect: training needs kernels, and a layer lacks .static void backward_parameters
// expect: layer_has_backward_parameters<without_backward_parameters, gpipe::tensor<float, 8>, false>
// expect: a layer lacks .static void forward
// expect: layer_has_forward<without_kernels, gpipe::tensor<float, 8>, false>
// expect: layer_has_backward_input<without_kernels, gpipe::tensor<float, 8>, false>
// expect: layer_has_update_state<without_kernels, gpipe::tensor<float, 8>, false>
// expect: layer_has_refresh<without_kernels, gpipe::tensor<float, 8>, false>
// errors: 9
#include <gpipe/device/host/context.hpp>
#include <gpipe/layer/activation/relu.hpp>
#include <gpipe/runtime/binding/kernel_table.hpp>

using namespace gpipe;

#ifdef GPIPE_FAIL
constexpr bool correct = false;
#else
constexpr bool correct = true;
#endif

// x^2, whose kernels use memory that the layer does not have there.
struct square {
  static void forward(const auto&, const auto& a) { a.out()[0] = a.in()[0] * a.in()[0]; }
  static void backward_input(const auto&, const auto& a) { a.in_gradient()[0] = 2 * a.in()[0] * a.out_gradient()[0]; }
};
struct unkept {
  template <class In>
  struct on : square {
    using output = In;
    static constexpr keep keeps{.input = correct};
  };
};
struct extra_in_forward {
  template <class In>
  struct on : square {
    using output = In;
    static constexpr buffer backward_extras[] = {{"copy", 8, dtype::float32}};
    static constexpr keep keeps{.input = true};
    static void forward(const auto& c, const auto& a) {
      if constexpr (!correct) a.backward_extra()[0] = 2;
      square::forward(c, a);
    }
    static void backward_input(const auto& c, const auto& a) {
      a.backward_extra()[0] = 2 * a.in()[0];
      square::backward_input(c, a);
    }
  };
};
struct workspace_in_forward {
  template <class In>
  struct on : square {
    using output = In;
    static constexpr buffer workspace[] = {{"twice", 8, dtype::float32}};
    static constexpr keep keeps{.input = true};
    static void forward(const auto& c, const auto& a) {
      if constexpr (!correct) a.workspace()[0] = a.in()[0];
      square::forward(c, a);
    }
    static void backward_input(const auto& c, const auto& a) {
      a.workspace()[0] = 2 * a.in()[0];
      square::backward_input(c, a);
    }
  };
};
struct forward_workspace_in_backward {
  template <class In>
  struct on : square {
    using output = In;
    static constexpr buffer forward_workspace[] = {{"copy", 8, dtype::float32}};
    static constexpr keep keeps{.input = true};
    static void forward(const auto& c, const auto& a) {
      a.forward_workspace()[0] = a.in()[0];
      square::forward(c, a);
    }
    static void backward_input(const auto& c, const auto& a) {
      if constexpr (!correct) a.forward_workspace()[0] = 2;
      square::backward_input(c, a);
    }
  };
};

// A model without kernels can be planned but not trained.
struct without_backward_parameters {
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
struct without_kernels {
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

template <class Layer>
struct net : model<input<float, 8>, Layer> {};
static_assert(layers_of<net<without_kernels>> == 1);
const void* const kernels[] = {detail::kernels_of<net<unkept>, host::context>,
                               detail::kernels_of<net<extra_in_forward>, host::context>,
                               detail::kernels_of<net<workspace_in_forward>, host::context>,
                               detail::kernels_of<net<forward_workspace_in_backward>, host::context>,
                               detail::kernels_of<net<without_backward_parameters>, host::context>,
                               detail::kernels_of<net<without_kernels>, host::context>};
