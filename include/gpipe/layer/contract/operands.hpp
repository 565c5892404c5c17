#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <gpipe/core/config.hpp>
#include <gpipe/core/numbers/random.hpp>
#include <gpipe/core/tensors/tensor.hpp>
#include <gpipe/layer/contract/bound.hpp>
#include <gpipe/layer/contract/kind.hpp>

namespace gpipe {

/// The maximum number of fields of the data that one layer reads.
inline constexpr int max_fields = 4;

namespace detail {

/// The kernels for which `refresh` runs.
enum class refresh_for : std::uint8_t {
  all,
  forward,
  backward,
  backward_input,
  backward_parameters,
  backward_parameters_alone,  ///< the input part does not run
};

/// The untyped buffers of one kernel call, filled in by the executor. Pointers that the call does not need are null.
/// State, derived, extras and so on are blocks with the inner offsets of `offset_in`; parameters and gradients, too,
/// unless `parameter_at` and `gradient_at` have the address of each, because a tied layer has some elsewhere.
struct call {
  int samples = 0;         ///< in this micro-batch, at most `capacity`
  int capacity = 0;        ///< the plan's micro-batch size
  bool training = false;   ///< false in evaluation: dropout has no effect
  bool recompute = false;  ///< forward has run on this micro-batch already and has written its partials
  const std::byte* in[max_tensors_per_edge]{};
  std::byte* out[max_tensors_per_edge]{};
  std::byte* in_gradient[max_tensors_per_edge]{};
  const std::byte* out_gradient[max_tensors_per_edge]{};
  const std::byte* parameters = nullptr;
  const std::byte* state = nullptr;
  const std::byte* derived = nullptr;
  std::byte* gradients = nullptr;
  const std::byte* const* parameter_at = nullptr;
  std::byte* const* gradient_at = nullptr;
  std::byte* extras = nullptr;
  std::byte* backward_extras = nullptr;
  std::byte* forward_workspace = nullptr;
  std::byte* workspace = nullptr;
  double* partials = nullptr;         ///< of the micro-batch; for `update_state`, of the first one
  std::ptrdiff_t partial_stride = 0;  ///< from one micro-batch's partials to the next's
  int micro_batches = 0;              ///< for `update_state`: the micro-batches that have samples
  const std::byte* fields[max_fields]{};
  random_key random{};
  /// For a layer with one input: the sum of the gradients from its other readers so far. The executor adds
  /// `in_gradient` to it, unless the kernel has done so and has set `added`.
  std::byte* gradient_sum = nullptr;
  bool* added = nullptr;
  bool* used_random = nullptr;               ///< if given, set to true when the kernel calls `random`
  refresh_for refreshed = refresh_for::all;  ///< the kernels that will read the buffers that `refresh` writes
  bool in_turn = false;                      ///< derived buffers for forward and for backward are in the same memory
  int block = 0;                             ///< of rows that `predict` makes
  const layer_lists* lists = nullptr;        ///< for kernels of a kind: the layer's sizes and lists
};

// The offset of a layer's I-th parameter or buffer in bytes: each starts at a multiple of `alignment`.
constexpr std::size_t offset_in(std::span<const parameter> list, std::size_t index, std::size_t element_bytes) {
  std::size_t offset = 0;
  for (std::size_t i = 0; i < index && i < list.size(); ++i) offset += aligned(list[i].extents.size() * element_bytes);
  return offset;
}
constexpr std::size_t offset_in(std::span<const buffer> list, std::size_t index, std::size_t samples) {
  std::size_t offset = 0;
  for (std::size_t i = 0; i < index && i < list.size(); ++i) offset += list[i].bytes(samples);
  return offset;
}

/// The offset of a derived buffer. Buffers for forward and for backward that are needed in turn start at the same byte:
///
///     list        | forward 0 | backward 0 | all | forward 1 | backward 1 |
///     in turn     | all | forward 0 | forward 1     |
///                       | backward 0 | backward 1 |
constexpr std::size_t offset_of_derived(std::span<const buffer> list, std::size_t index, bool in_turn) {
  if (!in_turn) return offset_in(list, index, 1);
  const auto turn_of = [](read_by reader) { return reader == read_by::backward_input ? read_by::backward : reader; };
  const read_by turn = turn_of(list[index].reader);
  std::size_t offset = 0;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const read_by reader_turn = turn_of(list[i].reader);
    if ((i < index && reader_turn == turn) || (reader_turn == read_by::all && turn != read_by::all))
      offset += list[i].bytes(1);
  }
  return offset;
}

}  // namespace detail

namespace broken {

template <class Layer, class Input, bool Holds>
struct backward_reads_a_kept_input {
  static_assert(Holds,
                "gpipe: a layer's backward reads its input, but the layer does not keep it: declare "
                "`static constexpr keep keeps{.input = true};`");
};
template <class Layer, class Input, bool Holds>
struct backward_reads_a_kept_output {
  static_assert(Holds,
                "gpipe: a layer's backward reads its output, but the layer does not keep it: declare "
                "`static constexpr keep keeps{.output = true};`");
};

template <class Layer, class Input, int Index, bool Holds>
struct kernel_uses_what_is_declared {
  static_assert(Holds,
                "gpipe: a kernel uses a parameter or a state of this Index, counted from 0, and the layer declares "
                "fewer: `static constexpr parameter parameters[] = {{\"weight\", {N}}, ...};`, or `state[]`");
};
template <class Layer, class Input, bool Holds>
struct forward_has_no_workspace {
  static_assert(Holds,
                "gpipe: a layer's workspace is memory of its backward and of `decode`: in forward use what the "
                "layer declares as `forward_workspace`");
};
template <class Layer, class Input, bool Holds>
struct only_forward_has_forward_workspace {
  static_assert(Holds,
                "gpipe: a layer's `forward_workspace` is memory of its forward alone: in backward use what the layer "
                "declares as `workspace`, and as `extras` what backward reads from forward");
};
template <class Layer, class Input, bool Holds>
struct only_backward_has_backward_extras {
  static_assert(Holds,
                "gpipe: a layer's `backward_extras` live in its backward alone: in forward use what the layer declares "
                "as `forward_workspace`, and as `extras` what backward reads from forward");
};

}  // namespace broken

namespace detail {

/// Forward and decode may read all edges of a layer; backward may read the edges that the layer keeps; update_state
/// may read none.
enum class pass { forward, backward, update_state, decode };

}  // namespace detail

/// The partials of each micro-batch of a step: `[m]` belongs to micro-batch m. Functors can copy it.
struct partial_list {
  const double* first = nullptr;
  std::ptrdiff_t stride = 0;
  int micro_batches = 0;

  GPIPE_HOST_DEVICE const double* operator[](int m) const { return first + m * stride; }
};

/// The typed buffers of one call: the arguments of a kernel. Rows are samples, contiguous.
///
///     in<I>()            [samples][in I]   const       forward; backward if it keeps its input
///     out<I>()           [samples][out I]              forward writes it; backward reads it if it keeps its output
///     out_gradient<I>()  [samples][out I]  const       backward
///     in_gradient<I>()   [samples][in I]               backward_input writes it; one of several inputs may be null:
///                                                      no layer needs its gradient
///     gradient_sum()     [samples][in]                 backward_input may add in_gradient to it; null: to nothing
///     parameter<I>()     as declared       const
///     gradient<I>()      as parameter I                backward_parameters *adds* to it
///     state<I>()         as declared       const       `update_state` writes it
///     derived<I>()       as declared                   `refresh` writes it
///     extra<I>()         [samples][extra I]            forward writes, backward reads and may overwrite
///     backward_extra<I>()  [samples][backward extra I]  backward_input writes, backward_parameters reads; the latter
///                                                      alone if no input has a gradient
///     forward_workspace<I>()  [samples][forward workspace I]  forward and `predict`; its values are lost when the call
///                                                      returns
///     workspace<I>()     [samples][workspace I]        backward_input, backward_parameters if no input has a gradient,
///                                                      decode; its values are lost when the call returns
///     first_predicted_row()  int                       `predict` of a layer with `predicted_rows`
///     partials()         as declared                   forward writes all of it, a layer with state only in training;
///                                                      null in a recompute
///     recorded_partials() as declared      const       the values that forward wrote: recompute and backward
///     all_partials()     partial_list                  `update_state`: of all micro-batches, in ascending order
///     field<I, T>()      [samples][field I] const
///     sizes()            the layer's `sizes`           of kernels that serve a kind of layers
template <class Bound, detail::pass Pass = detail::pass::forward>
class operands {
 public:
  using value_type = typename Bound::value_type;
  template <int Index>
  using in_type = typename Bound::template in_type<Index>;
  template <int Index>
  using out_type = typename Bound::template out_type<Index>;
  template <int Index>
  using derived_type = typename Bound::template derived_type<Index>;
  template <int Index>
  using extra_type = typename Bound::template extra_type<Index>;
  template <int Index>
  using backward_extra_type = typename Bound::template backward_extra_type<Index>;
  template <int Index>
  using forward_workspace_type = typename Bound::template forward_workspace_type<Index>;
  template <int Index>
  using workspace_type = typename Bound::template workspace_type<Index>;

  explicit operands(const detail::call& buffers) : call_(buffers) {}

  int samples() const { return call_.samples; }
  bool training() const { return call_.training; }
  // For `predict` of a layer that makes some columns, with `predicted_rows`: it makes the block of rows
  // [first, first + samples x predicted_rows.block), as far as the micro-batch has them.
  int first_predicted_row() const { return call_.block * call_.samples * lists().predicted.block; }
  // change: an operation on attention probabilities; random numbers of a kernel
  const random_key& random() const {
    if (call_.used_random != nullptr) *call_.used_random = true;
    return call_.random;
  }

  template <int Index = 0>
  const in_type<Index>* in() const {
    static_assert(sizeof(broken::backward_reads_a_kept_input < typename Bound::layer, typename Bound::input,
                         forwards || Bound::keeps.input >) > 0);
    return reinterpret_cast<const in_type<Index>*>(call_.in[Index]);
  }
  template <int Index = 0>
  out_type<Index>* out() const {
    static_assert(sizeof(broken::backward_reads_a_kept_output < typename Bound::layer, typename Bound::input,
                         forwards || Bound::keeps.output >) > 0);
    return reinterpret_cast<out_type<Index>*>(call_.out[Index]);
  }
  template <int Index = 0>
  in_type<Index>* in_gradient() const {
    return reinterpret_cast<in_type<Index>*>(call_.in_gradient[Index]);
  }
  // For backward_input of a layer with one input: the sum of other readers' gradients of it, or null. A kernel that
  // calls this must write the gradient to `in_gradient` and add it there, both rounded. A template, because a layer
  // without inputs has no in_type<0>.
  template <int Index = 0>
  in_type<Index>* gradient_sum() const {
    static_assert(Index == 0);
    if (call_.gradient_sum == nullptr || call_.added == nullptr) return nullptr;
    *call_.added = true;
    return reinterpret_cast<in_type<Index>*>(call_.gradient_sum);
  }
  template <int Index = 0>
  const out_type<Index>* out_gradient() const {
    return reinterpret_cast<const out_type<Index>*>(call_.out_gradient[Index]);
  }
  template <int Index = 0>
  const value_type* parameter() const {
    if constexpr (checks_lists) require_declared<Index, Bound::parameters.size()>();
    return reinterpret_cast<const value_type*>(
        call_.parameter_at != nullptr ? call_.parameter_at[Index]
                                      : call_.parameters + detail::offset_in(first(lists().parameters, Index),
                                                                             std::size_t{Index}, sizeof(value_type)));
  }
  // assumes: one parameter type
  template <int Index = 0>
  value_type* gradient() const {
    if constexpr (checks_lists) require_declared<Index, Bound::parameters.size()>();
    return reinterpret_cast<value_type*>(
        call_.gradient_at != nullptr ? call_.gradient_at[Index]
                                     : call_.gradients + detail::offset_in(first(lists().parameters, Index),
                                                                           std::size_t{Index}, sizeof(value_type)));
  }
  template <int Index = 0>
  std::conditional_t<Pass == detail::pass::update_state, value_type, const value_type>* state() const {
    if constexpr (checks_lists) require_declared<Index, Bound::state.size()>();
    return reinterpret_cast<value_type*>(
        const_cast<std::byte*>(call_.state) +
        detail::offset_in(first(lists().state, Index), std::size_t{Index}, sizeof(value_type)));
  }
  // For `refresh`: whether forward, or the input part of backward, is the next to read its buffers. Buffers for the
  // other then need no values.
  bool refreshes_for_forward() const {
    return call_.refreshed == detail::refresh_for::all || call_.refreshed == detail::refresh_for::forward;
  }
  bool refreshes_for_backward_input() const {
    return call_.refreshed == detail::refresh_for::all || call_.refreshed == detail::refresh_for::backward ||
           call_.refreshed == detail::refresh_for::backward_input;
  }
  // The same, or whether the parameter part reads them next because the input part does not run.
  bool refreshes_for_backward() const {
    return refreshes_for_backward_input() || call_.refreshed == detail::refresh_for::backward_parameters_alone;
  }
  // Only `refresh` writes it; the executor passes the same block for writing there.
  template <int Index = 0, class T = derived_type<Index>>
  T* derived() const {
    return reinterpret_cast<T*>(const_cast<std::byte*>(call_.derived) +
                                detail::offset_of_derived(all_derived(), std::size_t{Index}, call_.in_turn));
  }
  template <int Index = 0, class T = extra_type<Index>>
  T* extra() const {
    return in_block<T>(call_.extras, lists().extras, Index);
  }
  template <int Index = 0, class T = backward_extra_type<Index>>
  T* backward_extra() const {
    static_assert(sizeof(broken::only_backward_has_backward_extras<typename Bound::layer, typename Bound::input,
                                                                   Pass == detail::pass::backward>) > 0);
    return in_block<T>(call_.backward_extras, lists().backward_extras, Index);
  }
  template <int Index = 0, class T = forward_workspace_type<Index>>
  T* forward_workspace() const {
    static_assert(sizeof(broken::only_forward_has_forward_workspace<typename Bound::layer, typename Bound::input,
                                                                    Pass == detail::pass::forward>) > 0);
    return in_block<T>(call_.forward_workspace, lists().forward_workspace, Index);
  }
  template <int Index = 0, class T = workspace_type<Index>>
  T* workspace() const {
    static_assert(sizeof(broken::forward_has_no_workspace < typename Bound::layer, typename Bound::input,
                         Pass == detail::pass::backward || Pass == detail::pass::decode >) > 0);
    return in_block<T>(call_.workspace, lists().workspace, Index);
  }
  template <int Index, class T>
  const T* field() const {
    if constexpr (!detail::is_bound_kind<Bound>)
      static_assert(dtype_of<T> == Bound::fields[Index].type,
                    "gpipe: T must be the type in which the layer declares the field");
    return reinterpret_cast<const T*>(call_.fields[Index]);
  }
  double* partials() const { return call_.recompute ? nullptr : call_.partials; }
  const double* recorded_partials() const {
    return Pass == detail::pass::backward || call_.recompute ? call_.partials : nullptr;
  }
  partial_list all_partials() const { return {call_.partials, call_.partial_stride, call_.micro_batches}; }
  const auto& sizes() const {
    if constexpr (detail::is_bound_kind<Bound>)
      return *static_cast<const typename Bound::on::numbers*>(call_.lists->sizes);
    else return Bound::on::sizes;
  }

 private:
  // The kernels of a kind read the lists at run time, also in a layer that is derived from one of that kind.
  static constexpr bool checks_lists = !detail::is_bound_kind<Bound> && !requires { typename Bound::on::declared_by; };
  template <int Index, std::size_t Count>
  static constexpr void require_declared() {
    static_assert(sizeof(broken::kernel_uses_what_is_declared < typename Bound::layer, typename Bound::input, Index,
                         Index<static_cast<int>(Count)>) > 0);
  }
  detail::layer_lists lists() const {
    if constexpr (detail::is_bound_kind<Bound>) return *call_.lists;
    else return Bound::lists;
  }
  std::span<const buffer> all_derived() const {
    return {lists().derived, static_cast<std::size_t>(lists().derived_count)};
  }
  template <class T>
  static constexpr std::span<const T> first(const T* list, int count) {
    return {list, static_cast<std::size_t>(count)};
  }
  template <class T>
  T* in_block(std::byte* block, const buffer* list, int i) const {
    return reinterpret_cast<T*>(block + detail::offset_in(first(list, i), static_cast<std::size_t>(i),
                                                          static_cast<std::size_t>(call_.capacity)));
  }
  static constexpr bool forwards = Pass == detail::pass::forward || Pass == detail::pass::decode;

  const detail::call& call_;
};

/// The operands of backward's parameter part for several micro-batches; `[i]` belongs to one. All but the last have
/// the same number of samples. `backward_parameters(context, operands, micro_batches)` may add them up in one kernel.
template <class Bound>
class several_operands {
 public:
  several_operands(const detail::call* calls, int count) : calls_(calls), count_(count) {}

  operands<Bound, detail::pass::backward> operator[](int i) const {
    return operands<Bound, detail::pass::backward>(calls_[i]);
  }
  /// The samples of all micro-batches.
  int samples() const { return calls_[0].samples * (count_ - 1) + calls_[count_ - 1].samples; }

 private:
  const detail::call* calls_;
  int count_;
};

}  // namespace gpipe
