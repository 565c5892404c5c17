#pragma once

#include <type_traits>
#include <utility>

#include <gpipe/device/contract/kernels.hpp>
#include <gpipe/layer/contract/operands.hpp>
#include <gpipe/model/model.hpp>
#include <gpipe/runtime/binding/kernel_promises.hpp>

namespace gpipe::detail {

/// The kernels of one row of the network. A kernel that the layer does not need is null.
template <class Context>
struct kernel_row {
  using kernel = void (*)(const Context&, const call&);
  kernel forward = nullptr;
  kernel backward_input = nullptr;
  kernel backward_parameters = nullptr;
  kernel backward = nullptr;  ///< both parts at once
  /// The parameter parts of several micro-batches, at most `max_coalesced`.
  void (*backward_parameters_together)(const Context&, const call*, int count) = nullptr;
  kernel predict = nullptr;
  kernel absorb = nullptr;
  kernel refresh = nullptr;
  void (*prepare)(const Context&, int samples) = nullptr;  ///< sets up libraries before the first step
};

template <class Bound, class Context>
struct entry_points {
  using layer = typename Bound::layer;
  using input = typename Bound::input;
  using body = kernels<typename Bound::on, Context>;
  using arguments = operands<Bound>;
  using again = operands<Bound, pass::backward>;
  using together = several_operands<Bound>;
  using committed = operands<Bound, pass::absorb>;

  static constexpr bool has_forward =
      requires(const Context& c, const arguments& a) { body::forward(c, a); };
  static constexpr bool has_backward_input =
      requires(const Context& c, const again& a) { body::backward_input(c, a); };
  static constexpr bool has_backward_parameters =
      requires(const Context& c, const again& a) { body::backward_parameters(c, a); };
  static constexpr bool has_backward =
      requires(const Context& c, const again& a) { body::backward(c, a); };
  // An overload: a layer that is derived from another and has its own backward_parameters hides it.
  static constexpr bool has_backward_parameters_together =
      requires(const Context& c, const together& all) { body::backward_parameters(c, all, 2); };
  static constexpr bool has_absorb =
      requires(const Context& c, const committed& a) { { body::absorb(c, a) } noexcept; };
  static constexpr bool has_refresh =
      requires(const Context& c, const arguments& a) { { body::refresh(c, a) } noexcept; };
  static constexpr bool has_prepare = requires(const Context& c) { body::prepare(c, 1); };
  static constexpr bool trained = !Bound::parameters.empty();

  template <int... I>
  static constexpr bool floating(std::integer_sequence<int, I...>) {
    return (is_floating(dtype_of<typename part<input, I>::value_type>) || ...);
  }
  static constexpr bool takes_floating = floating(std::make_integer_sequence<int, parts<input>>{});

  static std::ptrdiff_t elements(const call& b) {
    return static_cast<std::ptrdiff_t>(part<input, 0>::size) * b.samples;
  }

  GPIPE_OUT_OF_LINE static void forward(const Context& c, const call& b) {
    if constexpr (Bound::view)
      c.copy(elements(b), arguments(b).template in<0>(), arguments(b).template out<0>());
    else body::forward(c, arguments(b));
  }
  GPIPE_OUT_OF_LINE static void backward_input(const Context& c, const call& b) {
    if constexpr (Bound::view)
      c.copy(elements(b), arguments(b).template out_gradient<0>(), arguments(b).template in_gradient<0>());
    else body::backward_input(c, again(b));
  }
  GPIPE_OUT_OF_LINE static void backward_parameters(const Context& c, const call& b) {
    body::backward_parameters(c, again(b));
  }
  GPIPE_OUT_OF_LINE static void backward_parameters_together(const Context& c, const call* all, int count) {
    body::backward_parameters(c, together(all, count), count);
  }
  GPIPE_OUT_OF_LINE static void backward(const Context& c, const call& b) { body::backward(c, again(b)); }
  GPIPE_OUT_OF_LINE static void predict(const Context& c, const call& b) { body::predict(c, arguments(b)); }
  GPIPE_OUT_OF_LINE static void absorb(const Context& c, const call& b) { body::absorb(c, committed(b)); }
  GPIPE_OUT_OF_LINE static void refresh(const Context& c, const call& b) { body::refresh(c, arguments(b)); }
  GPIPE_OUT_OF_LINE static void prepare(const Context& c, int samples) { body::prepare(c, samples); }

  static constexpr kernel_row<Context> row() {
    kernel_row<Context> k;
    static_cast<void>(asserted<broken::layer_has_forward<layer, input, has_forward || Bound::view>>{});
    static_cast<void>(asserted<
        broken::layer_has_backward_input<layer, input, has_backward_input || Bound::view || !takes_floating>>{});
    static_cast<void>(asserted<
        broken::layer_has_backward_parameters<layer, input, has_backward_parameters || !trained>>{});
    static_cast<void>(asserted<broken::layer_has_absorb<layer, input, has_absorb || Bound::state.empty()>>{});
    static_cast<void>(asserted<broken::layer_has_refresh<layer, input, has_refresh || Bound::derived.empty()>>{});
    if constexpr (has_forward || Bound::view) k.forward = &forward;
    if constexpr (has_backward_input || (Bound::view && takes_floating)) k.backward_input = &backward_input;
    if constexpr (has_backward_parameters && trained) k.backward_parameters = &backward_parameters;
    if constexpr (has_backward) k.backward = &backward;
    if constexpr (has_backward_parameters_together && trained)
      k.backward_parameters_together = &backward_parameters_together;
    if constexpr (Bound::predicted >= 0) k.predict = &predict;
    if constexpr (has_absorb && !Bound::state.empty()) k.absorb = &absorb;
    if constexpr (has_refresh && !Bound::derived.empty()) k.refresh = &refresh;
    if constexpr (has_prepare) k.prepare = &prepare;
    return k;
  }
};

// Walks the typed model in the same order as the network's expansion, so that each row gets what `Entry` has for it.
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
  constexpr int next_row() const { return next; }
  constexpr void back_to_row(int row) { next = row; }
};

template <class Model, class Entry>
constexpr auto tabulate_rows() {
  row_table<Entry, typed_model<Model>::counts.rows> table;
  typed_model<Model>::emit(table);
  return table;
}

template <class Context>
struct kernel_entry {
  using row_type = kernel_row<Context>;
  template <class Bound>
  static constexpr row_type row() {
    return entry_points<Bound, Context>::row();
  }
};

template <class Model, class Context>
inline constexpr auto kernels_of_model = tabulate_rows<Model, kernel_entry<Context>>();

/// The kernels of a model's rows on a device.
template <class Model, class Context>
inline constexpr const kernel_row<Context>* kernels_of = detail::kernels_of_model<Model, Context>.rows;

}  // namespace gpipe::detail
