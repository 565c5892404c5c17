#pragma once

namespace gpipe {

/// The assertions of kernel_table.hpp about a layer's kernels. A compile error names the template of the kernel that
/// the layer lacks.
namespace broken {

template <class Layer, class Input, bool Holds>
struct layer_has_forward {
  static_assert(Holds,
                "gpipe: training needs kernels, and a layer lacks `static void forward(const auto& context, "
                "const auto& operands)`");
};
template <class Layer, class Input, bool Holds>
struct layer_has_backward_input {
  static_assert(Holds,
                "gpipe: training needs kernels, and a layer lacks `static void backward_input(const auto& "
                "context, const auto& operands)`, which its floating-point input requires");
};
template <class Layer, class Input, bool Holds>
struct layer_has_backward_parameters {
  static_assert(Holds,
                "gpipe: training needs kernels, and a layer lacks `static void backward_parameters(const auto& "
                "context, const auto& operands)`, which its parameters require");
};
template <class Layer, class Input, bool Holds>
struct layer_has_refresh {
  static_assert(Holds,
                "gpipe: training needs kernels, and a layer lacks `static void refresh(const auto& context, "
                "const auto& operands) noexcept`, which its derived buffers require: it runs after the commit");
};

template <class Layer, class Input, bool Holds>
struct layer_has_update_state {
  static_assert(Holds,
                "gpipe: training needs kernels, and a layer lacks `static void update_state(const auto& context, "
                "const auto& operands) noexcept`, which its state requires: it runs when a step is committed");
};

}  // namespace broken

}  // namespace gpipe
