#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <gpipe/core/numbers/math.hpp>
#include <gpipe/core/tensors/array_function.hpp>
#include <gpipe/layer/attention/token_head.hpp>
#include <gpipe/layer/contract/bound.hpp>
#include <gpipe/layer/contract/extents.hpp>
#include <gpipe/layer/contract/operands.hpp>
#include <gpipe/layer/linear/weight_product.hpp>
#include <gpipe/layer/loss/carried_cross_entropy.hpp>
#include <gpipe/layer/loss/softmax_cross_entropy.hpp>

namespace gpipe {

namespace detail {

/// The kernels of a slice. The logits are made block by block, in each pass again, and no more than a block of them is
/// ever in memory:
///
///     forward               x W^T + b -> carried numbers
///     backward, each part   x W^T + b -> their gradient, in place -> dx, or dW and db
template <class T, cross_entropy Settings, bool First>
struct slice_kernels {
  using value_type = T;
  using number = compute_type<T>;
  using settings = cross_entropy_kernels<T, Settings>;
  // The carried numbers are in full precision also in bf16. They stand before x, which the first slice reads alone.
  template <int Index>
  using in_of = std::conditional_t<!First && Index == 0, number, T>;
  template <int Index>
  using out_of = number;
  static constexpr keep keeps{.input = true, .output = true};
  static constexpr int x = First ? 0 : 1;

  struct numbers {
    int rows, width, first, words,
        block;  ///< of a sample; of a row; the first word; words; a sample's share of a block
    bool biased;

    constexpr weight_product<T> product() const { return {words, width}; }
  };

  template <class C>
  static void prepare(const C& c, int samples, const numbers& of) {
    of.product().prepare(c, samples * of.block);
  }

  template <class C, class A>
  static void refresh(const C& c, const A& a) noexcept {
    const numbers& of = a.sizes();
    const number* weight = a.template parameter<0>();
    of.product().pack_forward(c, weight, a.template derived<0>());  // backward reads it, too
    of.product().pack_backward(c, weight, a.template derived<1>());
  }

  template <class C, class A>
  static void forward(const C& c, const A& a) {
    const numbers& of = a.sizes();
    each_block(c, a, [&](std::ptrdiff_t row, int count) {
      const number* before = nullptr;
      if constexpr (!First) before = a.template in<0>() + row * carried::count;
      c.rows(count, extend{a.template extra<0, T>(), labels_from(a, row), before, a.out() + row * carried::count,
                           settings::limit_in(a.training()), of.first, of.words});
    });
  }

  /// Writes the logits of one block, alone.
  template <class C, class A>
  static void predict(const C& c, const A& a) {
    make_block(c, a, a.first_predicted_row());
  }

  template <class C, class A>
  static void backward_input(const C& c, const A& a) {
    back<true, false>(c, a);
  }
  template <class C, class A>
  static void backward_parameters(const C& c, const A& a) {
    back<false, true>(c, a);
  }
  /// Both parts, which make the logits once.
  template <class C, class A>
  static void backward(const C& c, const A& a) {
    back<true, true>(c, a);
  }

  // Public, because nvcc names them.
  struct extend {
    const T* logits;
    const std::int32_t* labels;
    const number* before;
    number* out;
    number limit;
    int first;
    std::ptrdiff_t words;
    template <class Team>
    GPIPE_HOST_DEVICE void operator()(std::ptrdiff_t row, const Team& team) const {
      const T* from = logits + row * words;
      number* const into = out + row * carried::count;
      if constexpr (settings::ignores)
        if (settings::is_ignored(labels[row]))
          return team.each(carried::count, [=](std::ptrdiff_t i) { into[i] = number(0); });
      const std::ptrdiff_t label = std::ptrdiff_t{labels[row]} - first;
      const bool mine = label >= 0 && label < words;
      const auto value = [](std::ptrdiff_t j, auto z) { return number(z[j]); };
      const number bound = limit, most = team.maximum(words, settings::lowest, array_function{value, from});
      const number max = settings::clamped(most, bound);
      number total, all = 0;
      const auto clamped = [bound](std::ptrdiff_t j, auto z) { return settings::clamped(number(z[j]), bound); };
      if constexpr (settings::clips) {
        const auto power = [=](std::ptrdiff_t j, auto z) { return math::exp(clamped(j, z) - max); };
        total = team.sum(words, array_function{power, from});
      } else {
        const auto power = [max](std::ptrdiff_t j, auto z) { return math::exp(number(z[j]) - max); };
        total = team.sum(words, array_function{power, from});
      }
      if constexpr (settings::smooths) all = team.sum(words, array_function{clamped, from});
      number now[carried::count] = {max + math::log_alone(total), number(0), all, most, number(0)};
      if (mine) {
        const auto is_top = [most](std::ptrdiff_t j, auto z) { return number(z[j]) == most ? number(1) : number(0); };
        const number equals = team.sum(label, array_function{is_top, from});
        now[carried::of_label] = settings::clamped(number(from[label]), bound);
        if (number(from[label]) == most && equals == number(0)) now[carried::hit] = number(1);
      }
      if constexpr (!First) {
        const number* was = before + row * carried::count;
        const number larger = was[carried::log_sum] > max ? was[carried::log_sum] : max;
        now[carried::log_sum] = larger + math::log_alone(multiply_add(math::exp(max - larger), total,
                                                                      math::exp(was[carried::log_sum] - larger)));
        if (!mine) now[carried::of_label] = was[carried::of_label];
        now[carried::sum] += was[carried::sum];
        if (!(most > was[carried::top])) now[carried::top] = was[carried::top], now[carried::hit] = was[carried::hit];
      }
      team.each(1, [=](std::ptrdiff_t) {
        for (int i = 0; i < carried::count; ++i) into[i] = now[i];
      });
    }
  };

  /// The gradients of the logits, in their place.
  struct differentiate {
    T* logits;
    const std::int32_t* labels;
    const number *out, *out_gradient;
    number* gradient_of_label;  ///< before the label's logit may be overwritten
    number limit;
    int first;
    std::ptrdiff_t words;
    template <class Team>
    GPIPE_HOST_DEVICE void operator()(std::ptrdiff_t row, const Team& team) const {
      T* into = logits + row * words;
      const T* const from = into;
      const auto zero = [](std::ptrdiff_t j, auto z) { z[j] = number(0); };
      if constexpr (settings::ignores)
        if (settings::is_ignored(labels[row])) return team.each(words, array_function{zero, into});
      const number *now = out + row * carried::count, *d = out_gradient + row * carried::count;
      const number log_of_all = now[carried::log_sum], most = now[carried::top], bound = limit;
      const number by_sum = d[carried::log_sum], by_each = d[carried::sum], by_top = d[carried::top],
                   by_label = d[carried::of_label];
      const std::ptrdiff_t label = std::ptrdiff_t{labels[row]} - first;
      const bool mine = label >= 0 && label < words;
      const auto slope = [=](std::ptrdiff_t j, auto z) {
        const number logit = z[j];
        if constexpr (settings::clips || settings::smooths) {
          const bool passes = logit >= -bound && logit <= bound;
          return passes ? multiply_add(by_sum, math::exp(settings::clamped(logit, bound) - log_of_all), by_each)
                        : number(0);
        } else {
          return by_sum * math::exp(logit - log_of_all);
        }
      };
      const auto slope_with_top = [=](std::ptrdiff_t j, auto z) {
        return slope(j, z) + (number(z[j]) == most ? by_top : number(0));
      };
      number* const of_mine = gradient_of_label + row;
      team.each(1, [=](std::ptrdiff_t) {
        const number logit = mine ? number(from[label]) : number(0);
        const number own = logit >= -bound && logit <= bound ? by_label : number(0);
        *of_mine = mine ? slope_with_top(label, from) + own : number(0);
      });
      const auto write = [=](std::ptrdiff_t j, auto dz, auto z) { dz[j] = slope(j, z); };
      const auto write_with_top = [=](std::ptrdiff_t j, auto dz, auto z) { dz[j] = slope_with_top(j, z); };
      if (by_top != number(0)) team.each(words, array_function{write_with_top, into, from});  // no loss has it
      else team.each(words, array_function{write, into, from});
      if (mine) team.each(1, [=](std::ptrdiff_t) { into[label] = *of_mine; });
    }
  };

  /// The gradients of the numbers that the slices before carry.
  struct pass_back {
    const number *before, *out, *out_gradient;
    const std::int32_t* labels;
    number* into;
    int first, words;
    GPIPE_HOST_DEVICE void operator()(std::ptrdiff_t row) const {
      const std::ptrdiff_t at = row * carried::count;
      const number *was = before + at, *now = out + at, *d = out_gradient + at;
      const std::int32_t label = labels[row];
      const bool counts = !settings::is_ignored(label), mine = label >= first && label < first + words;
      const bool still_top = counts && was[carried::top] == now[carried::top];
      into[at + carried::log_sum] =
          counts ? d[carried::log_sum] * math::exp(was[carried::log_sum] - now[carried::log_sum]) : number(0);
      into[at + carried::of_label] = counts && !mine ? d[carried::of_label] : number(0);
      into[at + carried::sum] = counts ? d[carried::sum] : number(0);
      into[at + carried::top] = still_top ? d[carried::top] : number(0);
      into[at + carried::hit] = still_top ? d[carried::hit] : number(0);
    }
  };

 private:
  template <class A>
  static const std::int32_t* labels_from(const A& a, std::ptrdiff_t row) {
    return a.template field<0, std::int32_t>() + row;
  }

  /// Makes the logits of the block of rows that begins with `first`. Returns the number of its rows.
  template <class C, class A>
  static int make_block(const C& c, const A& a, int first) {
    const numbers& of = a.sizes();
    const int left = a.samples() * of.rows - first, block = a.samples() * of.block, rows = left < block ? left : block;
    T* const logits = a.template extra<0, T>();
    const T* from = a.template in<x>() + std::ptrdiff_t{first} * of.width;
    if (of.biased) of.product().apply(c, rows, from, a.template derived<0, T>(), a.template parameter<1>(), logits);
    else of.product().apply(c, rows, from, a.template derived<0, T>(), logits);
    return rows;
  }
  /// The same for each block, and then calls use(first row, rows).
  template <class C, class A, class Use>
  static void each_block(const C& c, const A& a, Use&& use) {
    const int count = a.samples() * a.sizes().rows;
    for (int first = 0, rows = 0; first < count; first += rows) {
      rows = make_block(c, a, first);
      use(std::ptrdiff_t{first}, rows);
    }
  }

  template <bool Input, bool Parameters, class C, class A>
  static void back(const C& c, const A& a) {
    const numbers& of = a.sizes();
    T* const into = Input ? a.template in_gradient<x>() : nullptr;
    if constexpr (Input && !First)
      if (number* const carry = a.template in_gradient<0>())
        c.each(std::ptrdiff_t{a.samples()} * of.rows,
               pass_back{a.template in<0>(), a.out(), a.out_gradient(), labels_from(a, 0), carry, of.first, of.words});
    if (!Parameters && into == nullptr) return;
    each_block(c, a, [&](std::ptrdiff_t row, int count) {
      T* const dx = a.template extra<0, T>();
      const std::ptrdiff_t at = row * carried::count;
      c.rows(count, differentiate{dx, labels_from(a, row), a.out() + at, a.out_gradient() + at,
                                  a.template extra<1, number>(), settings::limit_in(a.training()), of.first, of.words});
      if (into != nullptr) of.product().apply_back(c, count, dx, a.template derived<1, T>(), into + row * of.width);
      if constexpr (Parameters) {
        of.product().add_weight_gradient(c, count, dx, a.template in<x>() + row * of.width, a.template gradient<0>());
        if (of.biased) of.product().add_bias_gradient(c, count, dx, a.template gradient<1>());
      }
    });
  }
};

/// A slice over inputs of type `In`. `Carried` is what the slices before carry.
template <class On, class In, int First, int Words, bool Biased, int Vocabulary, cross_entropy Settings>
struct slice_layer : of_kind<On, slice_kernels<typename In::value_type, Settings, First == 0>>,
                     parameters_of_head<Words, last_extent<In>, Biased> {
  using T = typename In::value_type;
  using number = compute_type<T>;
  using output = with_last<with_element<In, number>, carried::count>;
  static constexpr int width = last_extent<In>, rows = rows_in<In>;
  static constexpr int block = rows < 32 ? rows : 32;
  static constexpr
      typename slice_kernels<T, Settings, First == 0>::numbers sizes{rows, width, First, Words, block, Biased};
  static constexpr weight_product<T> product{Words, width};

  static constexpr field fields[] = {{"labels", rows, dtype::int32, Vocabulary, false, Settings.ignored}};
  static constexpr buffer derived[] = {{"forward", product.packed_forward(), dtype_of<T>},
                                       {"backward", product.packed_backward(), dtype_of<T>}};
  static constexpr buffer extras[] = {{"logits", std::size_t{block} * Words, dtype_of<T>},
                                      {"gradients of labels", block, dtype_of<number>}};

  static constexpr int predicted = 0;
  static constexpr row_blocks predicted_rows{rows, block};
  static constexpr int first_row = First, all_rows = Vocabulary;

  static constexpr std::int64_t elements = std::int64_t{rows} * Words, operations = 2 * elements * width;
  // Backward makes the logits again, once for both parts if they run together.
  static constexpr work cost{.forward = operations + 20 * elements,
                             .backward_input = 2 * operations + 20 * elements,
                             .backward_parameters = operations + (Biased ? elements : 0),
                             .bytes = static_cast<std::int64_t>(sizeof(T)) * (rows * width + 2 * elements),
                             .kind = work_kind::product};
};

}  // namespace detail

/// The part [First, First + Words) of a vocabulary in a head that is cut: `token_head<Vocabulary, slices<N>>` makes a
/// list of them. It extends what the slices before carry of each row, by its logits x:
///
///     x = in W^T + b,    l' = log(e^l + sum_j e^x_j),    z' = x_label if the label is in the part, else z
///
///     input tensor<T, ..., width> of the first, bundle<tensor<number, ..., 5>, tensor<T, ..., width>> of the others
///     output tensor<number, ..., 5>, number float for bf16: l, z, the sum of the logits, the largest, and whether the
///     label is the first with that; weight {Words, width}, bias {Words} if it is `Biased`
///
/// The chain rule alone makes the gradients of a softmax over all words: with dl' of the loss's log sum,
///
///     dl = dl' e^(l - l'),    dx_j = dl' e^(x_j - l') + [j = label] dz'
///
/// so no slice needs another one's logits. Backward makes the logits again, and no pass holds more of them than 32 rows
/// of each sample. Field: "labels". The settings are those of the loss.
template <int Vocabulary, int First, int Words, bool Biased = true, cross_entropy Settings = cross_entropy{}>
struct vocabulary_slice {
  static_assert(First >= 0 && Words > 0 && First + Words <= Vocabulary,
                "gpipe: vocabulary_slice<Vocabulary, First, Words>: the words must be in the vocabulary");

  template <class In>
  struct on;

  template <class T, int... Extents>
  requires(First == 0 && sizeof...(Extents) > 0 && detail::is_floating(dtype_of<T>)) struct on<tensor<T, Extents...>>
      : detail::slice_layer<on<tensor<T, Extents...>>, tensor<T, Extents...>, First, Words, Biased, Vocabulary,
                            Settings> {
  };

  template <class Carried, class T, int... Extents>
  requires(First > 0 && sizeof...(Extents) > 0 && detail::is_floating(dtype_of<T>) &&
           std::is_same_v<Carried,
                          detail::with_last<detail::with_element<tensor<T, Extents...>, compute_type<T>>,
                                            detail::carried::count>>) struct on<bundle<Carried, tensor<T, Extents...>>>
      : detail::slice_layer<on<bundle<Carried, tensor<T, Extents...>>>, tensor<T, Extents...>, First, Words, Biased,
                            Vocabulary, Settings> {
  };
};

}  // namespace gpipe
