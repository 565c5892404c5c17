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
#include <gpipe/layer/linear/linear.hpp>
#include <gpipe/layer/loss/carried_cross_entropy.hpp>
#include <gpipe/layer/loss/softmax_cross_entropy.hpp>

namespace gpipe {

namespace detail {

/// The kernels of a slice. Every pass computes the logits again, block by block, and never stores more than one block:
///
///     forward               x W^T + b -> carried numbers
///     backward, each part   x W^T + b -> their gradient, in place -> dx, or dW and db
template <class T, cross_entropy Settings, bool First>
struct slice_kernels {
  using value_type = T;
  using number = compute_type<T>;
  using settings = cross_entropy_kernels<T, Settings>;
  // The carried numbers have full precision even in bf16. They precede x; the first slice reads only x.
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
  static void prepare(const C& c, int samples, const numbers& sizes) {
    sizes.product().prepare(c, samples * sizes.block);
  }

  template <class C, class A>
  static void refresh(const C& c, const A& a) noexcept {
    const numbers& sizes = a.sizes();
    const number* weight = a.template parameter<0>();
    sizes.product().pack_forward(c, weight, a.template derived<0>());  // backward reads it, too
    sizes.product().pack_backward(c, weight, a.template derived<1>());
  }

  template <class C, class A>
  static void forward(const C& c, const A& a) {
    const numbers& sizes = a.sizes();
    each_block(c, a, [&](std::ptrdiff_t row, int count) {
      const number* before = nullptr;
      if constexpr (!First) before = a.template in<0>() + row * carried::count;
      c.rows(count, extend{a.template extra<0, T>(), labels_from(a, row), before, a.out() + row * carried::count,
                           settings::limit_in(a.training()), sizes.first, sizes.words});
    });
  }

  /// Writes only the logits of one block.
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
  /// Both parts, which compute the logits once.
  template <class C, class A>
  static void backward(const C& c, const A& a) {
    back<true, true>(c, a);
  }

  // change: a metric; of a head in slices
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
      const T* row_logits = logits + row * words;
      number* const carried_out = out + row * carried::count;
      if constexpr (settings::ignores)
        if (settings::is_ignored(labels[row]))
          return team.each(carried::count, [=](std::ptrdiff_t i) { carried_out[i] = number(0); });
      const std::ptrdiff_t label = std::ptrdiff_t{labels[row]} - first;
      const bool has_label = label >= 0 && label < words;
      const auto value = [](std::ptrdiff_t j, auto z) { return number(z[j]); };
      const number bound = limit, most = team.maximum(words, settings::lowest, array_function{value, row_logits});
      const number max = settings::clamped(most, bound);
      const auto clamped = [bound](std::ptrdiff_t j, auto z) { return settings::clamped(number(z[j]), bound); };
      const auto power = [=](std::ptrdiff_t j, auto z) { return math::exp(clamped(j, z) - max); };
      const number total = team.sum(words, array_function{power, row_logits});
      number logit_sum = 0;
      if constexpr (settings::smooths) logit_sum = team.sum(words, array_function{clamped, row_logits});
      number extended[carried::count] = {max + math::log_alone(total), number(0), logit_sum, most, number(0)};
      if (has_label) {
        const auto is_top = [most](std::ptrdiff_t j, auto z) { return number(z[j]) == most ? number(1) : number(0); };
        const number equals = team.sum(label, array_function{is_top, row_logits});
        extended[carried::of_label] = settings::clamped(number(row_logits[label]), bound);
        if (number(row_logits[label]) == most && equals == number(0)) extended[carried::hit] = number(1);
      }
      if constexpr (!First) {
        const number* previous = before + row * carried::count;
        const number larger = previous[carried::log_sum] > max ? previous[carried::log_sum] : max;
        extended[carried::log_sum] =
            larger + math::log_alone(
                         multiply_add(math::exp(max - larger), total, math::exp(previous[carried::log_sum] - larger)));
        if (!has_label) extended[carried::of_label] = previous[carried::of_label];
        extended[carried::sum] += previous[carried::sum];
        if (!(most > previous[carried::top]))
          extended[carried::top] = previous[carried::top], extended[carried::hit] = previous[carried::hit];
      }
      team.each(1, [=](std::ptrdiff_t) {
        for (int i = 0; i < carried::count; ++i) carried_out[i] = extended[i];
      });
    }
  };

  /// Overwrites the logits with their gradients.
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
      T* gradients = logits + row * words;
      const T* const row_logits = gradients;
      const auto zero = [](std::ptrdiff_t j, auto z) { z[j] = number(0); };
      if constexpr (settings::ignores)
        if (settings::is_ignored(labels[row])) return team.each(words, array_function{zero, gradients});
      const number *extended = out + row * carried::count, *d = out_gradient + row * carried::count;
      const number log_of_all = extended[carried::log_sum], most = extended[carried::top], bound = limit;
      const number by_sum = d[carried::log_sum], by_each = d[carried::sum], by_top = d[carried::top],
                   by_label = d[carried::of_label];
      const std::ptrdiff_t label = std::ptrdiff_t{labels[row]} - first;
      const bool has_label = label >= 0 && label < words;
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
      number* const label_gradient = gradient_of_label + row;
      team.each(1, [=](std::ptrdiff_t) {
        const number logit = has_label ? number(row_logits[label]) : number(0);
        const number label_slope = logit >= -bound && logit <= bound ? by_label : number(0);
        *label_gradient = has_label ? slope_with_top(label, row_logits) + label_slope : number(0);
      });
      const auto write = [=](std::ptrdiff_t j, auto dz, auto z) { dz[j] = slope(j, z); };
      const auto write_with_top = [=](std::ptrdiff_t j, auto dz, auto z) { dz[j] = slope_with_top(j, z); };
      if (by_top != number(0))
        team.each(words, array_function{write_with_top, gradients, row_logits});  // no loss has it
      else team.each(words, array_function{write, gradients, row_logits});
      if (has_label) team.each(1, [=](std::ptrdiff_t) { gradients[label] = *label_gradient; });
    }
  };

  /// The gradients of the numbers carried by the earlier slices.
  struct pass_back {
    const number *before, *out, *out_gradient;
    const std::int32_t* labels;
    number* carry_gradient;
    int first, words;
    GPIPE_HOST_DEVICE void operator()(std::ptrdiff_t row) const {
      const std::ptrdiff_t offset = row * carried::count;
      const number *previous = before + offset, *extended = out + offset, *d = out_gradient + offset;
      const std::int32_t label = labels[row];
      const bool counts = !settings::is_ignored(label), has_label = label >= first && label < first + words;
      const bool still_top = counts && previous[carried::top] == extended[carried::top];
      carry_gradient[offset + carried::log_sum] =
          counts ? d[carried::log_sum] * math::exp(previous[carried::log_sum] - extended[carried::log_sum]) : number(0);
      carry_gradient[offset + carried::of_label] = counts && !has_label ? d[carried::of_label] : number(0);
      carry_gradient[offset + carried::sum] = counts ? d[carried::sum] : number(0);
      carry_gradient[offset + carried::top] = still_top ? d[carried::top] : number(0);
      carry_gradient[offset + carried::hit] = still_top ? d[carried::hit] : number(0);
    }
  };

 private:
  template <class A>
  static const std::int32_t* labels_from(const A& a, std::ptrdiff_t row) {
    return a.template field<0, std::int32_t>() + row;
  }

  /// Computes the logits of the block of rows that starts at `first`, and returns its number of rows.
  template <class C, class A>
  static int make_block(const C& c, const A& a, int first) {
    const numbers& sizes = a.sizes();
    const int left = a.samples() * sizes.rows - first, block = a.samples() * sizes.block,
              rows = left < block ? left : block;
    T* const logits = a.template extra<0, T>();
    const T* block_input = a.template in<x>() + std::ptrdiff_t{first} * sizes.width;
    sizes.product().apply(c, rows, block_input, a.template derived<0, T>(), logits, bias_of_head(a));
    return rows;
  }
  /// Does so for each block, and then calls use(first row, rows).
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
    const numbers& sizes = a.sizes();
    T* const dx = Input ? a.template in_gradient<x>() : nullptr;
    if constexpr (Input && !First)
      if (number* const carry = a.template in_gradient<0>())
        c.each(std::ptrdiff_t{a.samples()} * sizes.rows, pass_back{a.template in<0>(), a.out(), a.out_gradient(),
                                                                   labels_from(a, 0), carry, sizes.first, sizes.words});
    if (!Parameters && dx == nullptr) return;
    each_block(c, a, [&](std::ptrdiff_t row, int count) {
      T* const dlogits = a.template extra<0, T>();
      const std::ptrdiff_t offset = row * carried::count;
      c.rows(count,
             differentiate{dlogits, labels_from(a, row), a.out() + offset, a.out_gradient() + offset,
                           a.template extra<1, number>(), settings::limit_in(a.training()), sizes.first, sizes.words});
      if (dx != nullptr)
        sizes.product().apply_back(c, count, dlogits, a.template derived<1, T>(), dx + row * sizes.width);
      if constexpr (Parameters)
        gradient_of_head<T>(a, dlogits, a.template in<x>() + row * sizes.width, sizes.rows).add(c, count);
    });
  }
};

/// A slice over inputs of type `In`.
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
  // Backward computes the logits again, once for both parts if they run together.
  static constexpr work cost{.forward = operations + 20 * elements,
                             .backward_input = 2 * operations + 20 * elements,
                             .backward_parameters = operations + (Biased ? elements : 0),
                             .bytes = static_cast<std::int64_t>(sizeof(T)) * (rows * width + 2 * elements),
                             .kind = work_kind::product};
};

}  // namespace detail

/// The part [First, First + Words) of the vocabulary in a sliced head: `token_head<Vocabulary, slices<N>>` is a list of
/// them. By its logits x it extends the numbers that the earlier slices carry for each row:
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
/// so no slice needs another one's logits. Backward computes the logits again, and no pass holds more than 32 rows of
/// them per sample. Field: "labels". The settings are the loss's.
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
