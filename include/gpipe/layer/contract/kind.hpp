#pragma once

#include <type_traits>

#include <gpipe/core/tensors/dtype.hpp>
#include <gpipe/layer/contract/description.hpp>

namespace gpipe {

/// A layer whose kernels are compiled once for all layers of a kind, such as convolutions with different channels, or a
/// relu of different tensors, instead of once per input and size. A network with hundreds of different layers has a
/// dozen kinds.
///
///     template <class T>
///     struct scaling {                                    the kind: kernels, and all types in them
///       using value_type = T;                             of its edges and of its derived buffers
///       struct numbers { std::int64_t elements; int C; };
///       template <class C, class A>
///       static void forward(const C& c, const A& a) { c.each(a.samples() * a.sizes().elements, ...); }
///     };
///     template <class T, int... N>
///     struct on<tensor<T, N...>> : of_kind<on<tensor<T, N...>>, scaling<T>> {
///       using output = tensor<T, N...>;
///       static constexpr typename scaling<T>::numbers sizes{output::size, N...};
///     };
///
/// The kind declares what all of its layers share, such as `keeps`; `on` declares the rest, but no kernels. A kind
/// reads its operands by `a.extra<I, U>()`, `a.workspace<I, U>()` and so on, with their types, and prepares products by
/// `prepare(c, samples, sizes)`. Kernels of a struct derived from `on`, and those that `kernels` specializes for it,
/// are compiled for it alone; there `a.sizes()` are constants.
template <class On, class Kind>
struct of_kind : Kind {
  using kind = Kind;
  using declared_by = On;

  template <class C, class Of = On>  // Of: clang++ instantiates On while it is incomplete
  requires requires(const C& c) { Kind::prepare(c, 1, Of::sizes); }
  static void prepare(const C& c, int samples) { Kind::prepare(c, samples, Of::sizes); }
};

namespace detail {

/// The constants of one layer, for kernels that serve a kind. The lists have the order of the declarations.
struct layer_lists {
  const void* sizes = nullptr;
  const parameter *parameters = nullptr, *state = nullptr;
  const buffer *derived = nullptr, *extras = nullptr, *backward_extras = nullptr;
  const buffer *forward_workspace = nullptr, *workspace = nullptr;
  row_blocks predicted{};  ///< of a layer that makes some columns of a prediction
  int derived_count = 0;
};

/// Whether all kernels of `On` belong to its kind.
template <class On>
inline constexpr bool is_of_kind = false;
template <class On>
requires requires { typename On::kind; }
inline constexpr bool is_of_kind<On> = std::is_same_v<typename On::declared_by, On>;

// The element type of a kind's inputs: `input_type`, if it differs from the outputs'.
template <class Kind>
struct input_of_kind {
  using type = typename Kind::value_type;
};
template <class Kind>
requires requires { typename Kind::input_type; }
struct input_of_kind<Kind> {
  using type = typename Kind::input_type;
};

// The element type of one of several inputs or outputs: a kind whose edges have tensors of several types has `in_of`
// and `out_of`.
template <class Kind, int Index>
struct input_at : input_of_kind<Kind> {};
template <class Kind, int Index>
requires requires { typename Kind::template in_of<Index>; }
struct input_at<Kind, Index> {
  using type = typename Kind::template in_of<Index>;
};
template <class Kind, int Index>
struct output_at {
  using type = typename Kind::value_type;
};
template <class Kind, int Index>
requires requires { typename Kind::template out_of<Index>; }
struct output_at<Kind, Index> {
  using type = typename Kind::template out_of<Index>;
};

/// Replaces `bound` in the operands of a kind.
template <class Kind>
struct bound_kind {
  using layer = Kind;
  using on = Kind;
  using input = typename input_of_kind<Kind>::type;
  using output = typename Kind::value_type;
  using value_type = compute_type<output>;

  template <int Index>
  using in_type = typename input_at<Kind, Index>::type;
  template <int Index>
  using out_type = typename output_at<Kind, Index>::type;
  template <int Index>
  using derived_type = output;
  template <int Index>
  using extra_type = void;  // named by the kernel
  template <int Index>
  using backward_extra_type = void;
  template <int Index>
  using forward_workspace_type = void;
  template <int Index>
  using workspace_type = void;

  static constexpr keep keeps = [] {
    if constexpr (requires { Kind::keeps; }) return Kind::keeps;
    else return keep{};
  }();
};
template <class Bound>
inline constexpr bool is_bound_kind = false;
template <class Kind>
inline constexpr bool is_bound_kind<bound_kind<Kind>> = true;

}  // namespace detail

}  // namespace gpipe
