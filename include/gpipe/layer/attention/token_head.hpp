#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <gpipe/layer/contract/bound.hpp>
#include <gpipe/layer/contract/extents.hpp>
#include <gpipe/layer/contract/operands.hpp>
#include <gpipe/layer/linear/linear.hpp>
#include <gpipe/layer/loss/softmax_cross_entropy.hpp>

namespace gpipe {

/// The option that slices a token head: `token_head<50'257, slices<8>>` is a list of 8 layers, each with a part of the
/// vocabulary, followed by a loss. A model may be cut between any two of them.
template <int Count>
struct slices {
  static_assert(Count > 0, "gpipe: slices<Count>: a head has at least 1 slice");
};

namespace detail {

/// The options of a token head, in any order: `no_bias`, `slices`, and a cross-entropy.
template <class... Options>
struct head_options {
  static constexpr bool known = true, biased = true;
  static constexpr int losses = 0, slices = 1, cuts = 0;
  static constexpr cross_entropy settings{};
  using loss = softmax_cross_entropy;
};
template <class Option, class... Rest>
struct head_options<Option, Rest...> : head_options<Rest...> {
  static constexpr bool known = false;
};
template <class... Rest>
struct head_options<no_bias, Rest...> : head_options<Rest...> {
  static constexpr bool biased = false;
};
template <int Count, class... Rest>
struct head_options<gpipe::slices<Count>, Rest...> : head_options<Rest...> {
  static constexpr int slices = Count, cuts = head_options<Rest...>::cuts + 1;
};
template <class... Rest>
struct head_options<softmax_cross_entropy, Rest...> : head_options<Rest...> {
  static constexpr int losses = head_options<Rest...>::losses + 1;
};
template <cross_entropy Settings, class... Rest>
struct head_options<softmax_cross_entropy_with<Settings>, Rest...> : head_options<Rest...> {
  static constexpr int losses = head_options<Rest...>::losses + 1;
  static constexpr cross_entropy settings = Settings;
  using loss = softmax_cross_entropy_with<Settings>;
};

template <int Vocabulary, int Width, bool Biased>
using parameters_of_head =
    std::conditional_t<Biased, linear_parameters<Vocabulary, Width>, linear_parameters<Vocabulary, Width, no_bias>>;

/// A head's operands, in the form of its loss's: the loss reads the logits and overwrites them with their gradient.
template <class T, class Operands>
struct operands_of_loss {
  const Operands& of_head;

  int samples() const { return of_head.samples(); }
  bool training() const { return of_head.training(); }
  // change: a metric
  double* partials() const { return of_head.partials(); }
  row_sizes sizes() const { return of_head.sizes().logits(); }
  T* in() const { return of_head.template extra<0, T>(); }
  T* in_gradient() const { return in(); }
  template <int Index, class U>
  const U* field() const {
    return of_head.template field<Index, U>();
  }
  template <int Index, class U>
  U* extra() const {
    return of_head.template extra<Index + 1, U>();
  }
};

/// The bias of a head, or null.
template <class A>
auto* bias_of_head(const A& a) {
  return a.sizes().biased ? a.template parameter<1>() : nullptr;
}
/// The gradients of its parameters, from those of a sample's `rows` rows of logits.
template <class T, class A>
product_gradient<T> gradient_of_head(const A& a, const T* dlogits, const T* x, int rows) {
  return {a.sizes().product(),
          dlogits,
          x,
          rows,
          a.template gradient<0>(),
          a.sizes().biased ? a.template gradient<1>() : nullptr};
}

/// `Loss` is the kind of the cross-entropy.
template <class T, class Loss>
struct token_head_kernels : product_kernels<token_head_kernels<T, Loss>, T> {
  using value_type = T;
  using number = compute_type<T>;
  using loss = Loss;
  struct numbers {
    int rows, width, vocabulary;
    bool biased;

    constexpr weight_product<T> product() const { return {vocabulary, width}; }
    constexpr row_sizes logits() const { return {rows, vocabulary}; }
  };

  template <class C>
  static void prepare(const C& c, int samples, const numbers& sizes) {
    sizes.product().prepare(c, samples * sizes.rows);
  }

  template <class C, class A>
  static void refresh(const C& c, const A& a) noexcept {
    const numbers& sizes = a.sizes();
    const number* weight = a.template parameter<0>();
    if (a.refreshes_for_forward()) sizes.product().pack_forward(c, weight, a.template derived<0>());
    if (a.refreshes_for_backward_input()) sizes.product().pack_backward(c, weight, a.template derived<1>());
  }

  /// Writes only the logits.
  template <class C, class A>
  static void predict(const C& c, const A& a) {
    const numbers& sizes = a.sizes();
    sizes.product().apply(c, a.samples() * sizes.rows, a.in(), a.template derived<0>(), a.template extra<0, T>(),
                          bias_of_head(a));
  }

  template <class C, class A>
  static void forward(const C& c, const A& a) {
    predict(c, a);
    loss::forward(c, operands_of_loss<T, A>{a});
  }

  template <class C, class A>
  static void backward_input(const C& c, const A& a) {
    const numbers& sizes = a.sizes();
    T* const dx = a.in_gradient();
    if (dx == nullptr) return;
    loss::backward_input(c, operands_of_loss<T, A>{a});
    sizes.product().apply_back(c, a.samples() * sizes.rows, a.template extra<0, T>(), a.template derived<1>(), dx);
  }

  template <class C, class A>
  static std::array<product_gradient<T>, 1> product_gradients(const C& c, const A& a) {
    if (a.in_gradient() == nullptr) loss::backward_input(c, operands_of_loss<T, A>{a});
    return {gradient_of_head<T>(a, a.template extra<0, T>(), a.in(), a.sizes().rows)};
  }
};

}  // namespace detail

/// The last layer of a language model: a linear layer from the last extent to the vocabulary, and the cross-entropy.
///
///     x = in W^T + b,  loss = weight (log sum_j e^x_j - x_label)
///
///     input tensor<T, ..., width>, weight {Vocabulary, width}, bias {Vocabulary} unless an option is `no_bias`
///
/// Options, in any order: `no_bias`, a cross-entropy such as `softmax_cross_entropy_with<cross_entropy{.smoothing =
/// 0.1}>`, and `slices<N>`, which splits it into N layers ([sliced_head.hpp](../../model/structure/sliced_head.hpp)).
/// Fields: "labels", int32 below `Vocabulary`, and "weights", by default all ones; both have one element per token.
/// `predict` gives the logits x. It trains with the bits of `linear` and the loss, in less memory: backward overwrites
/// the logits with their gradient.
template <int Vocabulary, class... Options>
struct token_head {
  using options = detail::head_options<Options...>;
  static_assert(Vocabulary > 0, "gpipe: token_head<Vocabulary>: the vocabulary must have at least 1 token");
  static_assert(options::known && options::losses <= 1 && options::cuts <= 1,
                "gpipe: token_head<Vocabulary, ...> has three options: no_bias, slices<N>, and one of "
                "softmax_cross_entropy and softmax_cross_entropy_with<...>");
  static_assert(options::slices == 1,
                "gpipe: token_head<Vocabulary, slices<N>> is a list of layers for a model: include "
                "<gpipe/model/model.hpp>");

  template <class In>
  struct on;

  template <class In>
  using loss_on = typename options::loss::template on<detail::with_last<In, Vocabulary>>;

  template <class T, int... Extents>
  requires(sizeof...(Extents) > 0 && detail::is_floating(dtype_of<T>)) struct on<tensor<T, Extents...>>
      : of_kind<on<tensor<T, Extents...>>,
                detail::token_head_kernels<T, typename loss_on<tensor<T, Extents...>>::kind>>,
        detail::parameters_of_head<Vocabulary, detail::last_extent<tensor<T, Extents...>>, options::biased> {
    using input = tensor<T, Extents...>;
    using output = bundle<>;
    using of_loss = loss_on<input>;
    static constexpr bool biased = options::biased;
    static constexpr int width = detail::last_extent<input>, rows = detail::rows_in<input>;
    static constexpr typename on::numbers sizes{rows, width, Vocabulary, biased};
    static constexpr auto product = sizes.product();

    static constexpr field fields[] = {of_loss::fields[0], of_loss::fields[1]};
    static constexpr partial partials[] = {of_loss::partials[0], of_loss::partials[1], of_loss::partials[2]};
    static constexpr buffer derived[] = {
        buffer::for_forward("forward", product.packed_forward(), dtype_of<T>),
        buffer::for_backward_input("backward", product.packed_backward(), dtype_of<T>)};
    static constexpr buffer extras[] = {{"logits", std::size_t{rows} * Vocabulary, dtype_of<T>}, of_loss::extras[0]};
    static constexpr int predicted = 0;

    static constexpr std::int64_t elements = of_loss::elements, operations = 2 * elements * width;
    static constexpr work cost{.forward = operations + of_loss::cost.forward,
                               .backward_input = operations + of_loss::cost.backward_input,
                               .backward_parameters = operations + (biased ? elements : 0),
                               .bytes = static_cast<std::int64_t>(sizeof(T)) * (rows * width + 2 * elements),
                               .kind = work_kind::product};
  };
};

}  // namespace gpipe
