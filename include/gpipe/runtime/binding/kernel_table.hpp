#pragma once

#include <type_traits>
#include <utility>

#include <gpipe/device/contract/device_functions.hpp>
#include <gpipe/device/contract/kernels.hpp>
#include <gpipe/layer/contract/operands.hpp>
#include <gpipe/model/model.hpp>

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

namespace gpipe::detail {

// assumes: one kind of device
/// The kernels of one layer type of the network, for contexts of one type. A kernel that the layer does not need is
/// null.
struct kernel_row {
  context_id context = nullptr;
  using kernel = void (*)(context_handle, const call&);
  kernel forward = nullptr;
  kernel backward_input = nullptr;
  kernel backward_parameters = nullptr;
  kernel backward = nullptr;  ///< both parts at once
  /// The parameter parts of several micro-batches, at most `max_gradient_group`.
  void (*backward_parameters_of_group)(context_handle, const call*, int count) = nullptr;
  kernel predict = nullptr;
  kernel update_state = nullptr;
  kernel refresh = nullptr;
  /// Sets up libraries before the first step.
  void (*prepare)(context_handle, int samples, const layer_lists*) = nullptr;
};

/// The kernels that a view has: a bound layer, or the kind whose kernels it shares with others (`kernel_view`).
template <class View, class Context>
struct kernels_in {
  using body = kernels<typename View::on, Context>;
  using arguments = operands<View>;
  using backward_arguments = operands<View, pass::backward>;
  using group = several_operands<View>;
  using committed = operands<View, pass::update_state>;

  static constexpr bool has_forward = requires(const Context& c, const arguments& a) { body::forward(c, a); };
  static constexpr bool has_backward_input = requires(const Context& c, const backward_arguments& a) {
    body::backward_input(c, a);
  };
  static constexpr bool has_backward_parameters = requires(const Context& c, const backward_arguments& a) {
    body::backward_parameters(c, a);
  };
  static constexpr bool has_backward = requires(const Context& c, const backward_arguments& a) {
    body::backward(c, a);
  };
  // An overload: a layer that is derived from another and has its own backward_parameters hides it.
  static constexpr bool has_backward_parameters_of_group = requires(const Context& c, const group& calls) {
    body::backward_parameters(c, calls, 2);
  };
  static constexpr bool has_predict = requires(const Context& c, const arguments& a) { body::predict(c, a); };
  static constexpr bool has_update_state = requires(const Context& c, const committed& a) {
    { body::update_state(c, a) }
    noexcept;
  };
  static constexpr bool has_refresh = requires(const Context& c, const arguments& a) {
    { body::refresh(c, a) }
    noexcept;
  };
  static constexpr bool has_prepare = [] {
    if constexpr (is_bound_kind<View>) return requires(const Context& c, const typename View::on::numbers& numbers) {
        body::prepare(c, 1, numbers);
      };
    else return requires(const Context& c) {
        body::prepare(c, 1);
      };
  }();
};

/// The kernels of a view as functions over untyped calls. A view may be incomplete here: a program declares the kinds
/// of the compiled library without their layers.
template <class View, class Context>
struct kernel_functions {
  GPIPE_OUT_OF_LINE static void forward(context_handle c, const call& b);
  GPIPE_OUT_OF_LINE static void backward_input(context_handle c, const call& b);
  GPIPE_OUT_OF_LINE static void backward_parameters(context_handle c, const call& b);
  GPIPE_OUT_OF_LINE static void backward_parameters_of_group(context_handle c, const call* calls, int count);
  GPIPE_OUT_OF_LINE static void backward(context_handle c, const call& b);
  GPIPE_OUT_OF_LINE static void predict(context_handle c, const call& b);
  GPIPE_OUT_OF_LINE static void update_state(context_handle c, const call& b);
  GPIPE_OUT_OF_LINE static void refresh(context_handle c, const call& b);
  GPIPE_OUT_OF_LINE static void prepare(context_handle c, int samples, const layer_lists* lists);
};

// Defined outside the class, so that a program uses the definitions of the compiled library: compilers instantiate
// inline functions even if the library has them. A function that a kind lacks is empty, because the library has all
// functions of its kinds.
template <class View, class Context>
void kernel_functions<View, Context>::forward(context_handle c, const call& b) {
  using view = kernels_in<View, Context>;
  if constexpr (view::has_forward) view::body::forward(c.as<Context>(), typename view::arguments(b));
}
template <class View, class Context>
void kernel_functions<View, Context>::backward_input(context_handle c, const call& b) {
  using view = kernels_in<View, Context>;
  if constexpr (view::has_backward_input)
    view::body::backward_input(c.as<Context>(), typename view::backward_arguments(b));
}
template <class View, class Context>
void kernel_functions<View, Context>::backward_parameters(context_handle c, const call& b) {
  using view = kernels_in<View, Context>;
  if constexpr (view::has_backward_parameters)
    view::body::backward_parameters(c.as<Context>(), typename view::backward_arguments(b));
}
template <class View, class Context>
void kernel_functions<View, Context>::backward_parameters_of_group(context_handle c, const call* calls, int count) {
  using view = kernels_in<View, Context>;
  if constexpr (view::has_backward_parameters_of_group)
    view::body::backward_parameters(c.as<Context>(), typename view::group(calls, count), count);
}
template <class View, class Context>
void kernel_functions<View, Context>::backward(context_handle c, const call& b) {
  using view = kernels_in<View, Context>;
  if constexpr (view::has_backward) view::body::backward(c.as<Context>(), typename view::backward_arguments(b));
}
template <class View, class Context>
void kernel_functions<View, Context>::predict(context_handle c, const call& b) {
  using view = kernels_in<View, Context>;
  if constexpr (view::has_predict || !is_bound_kind<View>)
    view::body::predict(c.as<Context>(), typename view::arguments(b));
}
template <class View, class Context>
void kernel_functions<View, Context>::update_state(context_handle c, const call& b) {
  using view = kernels_in<View, Context>;
  if constexpr (view::has_update_state) view::body::update_state(c.as<Context>(), typename view::committed(b));
}
template <class View, class Context>
void kernel_functions<View, Context>::refresh(context_handle c, const call& b) {
  using view = kernels_in<View, Context>;
  if constexpr (view::has_refresh) view::body::refresh(c.as<Context>(), typename view::arguments(b));
}
template <class View, class Context>
void kernel_functions<View, Context>::prepare(context_handle c, int samples, const layer_lists* lists) {
  using view = kernels_in<View, Context>;
  if constexpr (!view::has_prepare) return;
  else if constexpr (is_bound_kind<View>)
    view::body::prepare(c.as<Context>(), samples, *static_cast<const typename View::on::numbers*>(lists->sizes));
  else view::body::prepare(c.as<Context>(), samples);
}

/// The kernels of a layer that returns its input under another shape.
template <class Bound, class Context>
struct view_functions {
  static std::ptrdiff_t elements(const call& b) {
    return static_cast<std::ptrdiff_t>(part<typename Bound::input, 0>::size) * b.samples;
  }
  GPIPE_OUT_OF_LINE static void forward(context_handle c, const call& b) {
    const operands<Bound> a(b);
    c.as<Context>().copy(elements(b), a.template in<0>(), a.template out<0>());
  }
  GPIPE_OUT_OF_LINE static void backward_input(context_handle c, const call& b) {
    const operands<Bound, pass::backward> a(b);
    c.as<Context>().copy(elements(b), a.template out_gradient<0>(), a.template in_gradient<0>());
  }
};

/// A layer's row of the table of kernels.
template <class Bound, class Context>
struct entry_points {
  using layer = typename Bound::layer;
  using input = typename Bound::input;

  template <int... Indices>
  static constexpr bool floating(std::integer_sequence<int, Indices...>) {
    return (is_floating(dtype_of<typename part<input, Indices>::value_type>) || ...);
  }
  static constexpr bool takes_floating = floating(std::make_integer_sequence<int, parts<input>>{});

  static constexpr kernel_row row() {
    using view = kernel_view<Bound, Context>;
    using functions = kernel_functions<view, Context>;
    using kernels = kernels_in<view, Context>;
    kernel_row entry{.context = id_of_context<Context>};
    if constexpr (Bound::view) {
      entry.forward = &view_functions<Bound, Context>::forward;
      if constexpr (takes_floating) entry.backward_input = &view_functions<Bound, Context>::backward_input;
    } else {
      if constexpr (kernels::has_forward) entry.forward = &functions::forward;
      else promise<broken::layer_has_forward<layer, input, false>>();
      if constexpr (kernels::has_backward_input) entry.backward_input = &functions::backward_input;
      else if constexpr (takes_floating) promise<broken::layer_has_backward_input<layer, input, false>>();
    }
    if constexpr (!Bound::parameters.empty()) {
      if constexpr (kernels::has_backward_parameters) entry.backward_parameters = &functions::backward_parameters;
      else promise<broken::layer_has_backward_parameters<layer, input, false>>();
      if constexpr (kernels::has_backward_parameters_of_group)
        entry.backward_parameters_of_group = &functions::backward_parameters_of_group;
    }
    if constexpr (kernels::has_backward) entry.backward = &functions::backward;
    if constexpr (Bound::predicted >= 0) entry.predict = &functions::predict;
    if constexpr (!Bound::state.empty()) {
      if constexpr (kernels::has_update_state) entry.update_state = &functions::update_state;
      else promise<broken::layer_has_update_state<layer, input, false>>();
    }
    if constexpr (!Bound::derived.empty()) {
      if constexpr (kernels::has_refresh) entry.refresh = &functions::refresh;
      else promise<broken::layer_has_refresh<layer, input, false>>();
    }
    if constexpr (kernels::has_prepare) entry.prepare = &functions::prepare;
    return entry;
  }

 private:
  template <class Promise>
  static constexpr void promise() {
    static_cast<void>(asserted<Promise>{});
  }
};

// A row for each layer type of the network, by `Entry`. It walks the typed model in the order of the network's
// expansion. In each repetition of a repeat, `back_to_type` returns to the rows that the first one has filled.
template <class Entry, int Rows>
struct row_table {
  typename Entry::row_type rows[static_cast<std::size_t>(Rows) + 1]{};
  int next = 0, filled = 0;

  template <class Bound>
  constexpr void layer() {
    if (next == filled) rows[filled++] = Entry::template row<Bound>();
    ++next;
  }
  template <class Tied, class Bound>
  constexpr void tied_layer() {
    layer<Bound>();
  }
  constexpr void stash() {}
  constexpr void stash(int) {}
  constexpr void pop(int) {}
  constexpr void rejoin() {}
  constexpr void leave_edge() {}
  constexpr int enter() const { return 0; }
  constexpr void leave(int) {}
  constexpr int next_type() const { return next; }
  constexpr void back_to_type(int row) { next = row; }
};

template <class Model, class Entry>
constexpr auto tabulate_rows() {
  row_table<Entry, typed_model<Model>::counts.types> table;
  typed_model<Model>::list_into(table);
  return table;
}

template <class Context>
struct kernel_entry {
  using row_type = kernel_row;
  template <class Bound>
  static constexpr row_type row() {
    return entry_points<Bound, Context>::row();
  }
};

template <class Model, class Context>
inline constexpr auto kernels_of_model = tabulate_rows<Model, kernel_entry<Context>>();

/// The kernels of a model's layer types on a device.
template <class Model, class Context>
inline constexpr const kernel_row* kernels_of = detail::kernels_of_model<Model, Context>.rows;

}  // namespace gpipe::detail
