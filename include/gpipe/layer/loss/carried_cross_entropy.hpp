#pragma once

#include <cstddef>
#include <cstdint>

#include <gpipe/layer/contract/bound.hpp>
#include <gpipe/layer/contract/extents.hpp>
#include <gpipe/layer/contract/operands.hpp>
#include <gpipe/layer/loss/softmax_cross_entropy.hpp>

namespace gpipe {

namespace detail {

// change: a metric; of a head in slices
/// The numbers per row that the slices of a head carry, over all classes so far; z are the clamped logits x.
struct carried {
  enum : int {
    log_sum,   ///< log sum_j e^z_j
    of_label,  ///< z of the label; 0 before its slice
    sum,       ///< sum_j z_j, if labels are smoothed, else 0
    top,       ///< max_j x_j
    hit,       ///< 1 if the label is the first class with x_j = top, else 0
    count
  };
};

/// The kernels of the loss after the slices.
template <class T, cross_entropy Settings>
struct carried_cross_entropy_kernels {
  using value_type = T;
  using settings = cross_entropy_kernels<T, Settings>;
  struct numbers {
    int rows, classes;
  };

  template <class A>
  static typename settings::weight_of weights(const A& a) {
    return {a.template field<1, T>(), a.template field<0, std::int32_t>()};
  }

  template <class C, class A>
  static void forward(const C& c, const A& a) {
    double* const partial = a.partials();
    if (partial == nullptr) return;
    const std::ptrdiff_t count = std::ptrdiff_t{a.samples()} * a.sizes().rows;
    c.sum_rows(count, loss_of{a.in(), weights(a), settings::elsewhere(a.sizes().classes)}, partial);
    c.sum_rows(count, weights(a), partial + 1);
    c.sum_rows(count, hit_of{a.in(), weights(a)}, partial + 2);
  }

  template <class C, class A>
  static void backward_input(const C& c, const A& a) {
    if (a.in_gradient() == nullptr) return;
    c.each(std::ptrdiff_t{a.samples()} * a.sizes().rows,
           differentiate{weights(a), settings::elsewhere(a.sizes().classes), a.in_gradient()});
  }

  struct loss_of {
    const T* in;
    typename settings::weight_of weights;
    T elsewhere;
    GPIPE_HOST_DEVICE double operator()(std::ptrdiff_t row) const {
      const T* carry = in + row * carried::count;
      T loss = carry[carried::log_sum] - settings::on_label * carry[carried::of_label];
      if constexpr (settings::smooths) loss -= elsewhere * carry[carried::sum];
      return static_cast<double>(weights(row)) * static_cast<double>(loss);
    }
  };
  struct hit_of {
    const T* in;
    typename settings::weight_of weights;
    GPIPE_HOST_DEVICE double operator()(std::ptrdiff_t row) const {
      return static_cast<double>(weights(row)) * static_cast<double>(in[row * carried::count + carried::hit]);
    }
  };
  struct differentiate {
    typename settings::weight_of weights;
    T elsewhere;
    T* gradient;
    GPIPE_HOST_DEVICE void operator()(std::ptrdiff_t row) const {
      T* d = gradient + row * carried::count;
      const T weight = weights(row);
      d[carried::log_sum] = weight;
      d[carried::of_label] = -weight * settings::on_label;
      d[carried::sum] = settings::smooths ? -weight * elsewhere : T(0);
      d[carried::top] = d[carried::hit] = T(0);
    }
  };
};

}  // namespace detail

/// The loss after the slices of a head with `Vocabulary` words, computed from the numbers that `vocabulary_slice`
/// carries:
///
///     loss = weight (log sum_j e^z_j - sum_j t_j z_j)    with the target t of softmax_cross_entropy_with<Settings>
///
///     input tensor<T, ..., 5>, T float or double
///
/// Fields, rows, weights and partials are as in `softmax_cross_entropy_with`. With a log sum L the loss is exact to
/// some 2^-24 L, so a loss near 0 has fewer digits than with an unsliced head.
template <int Vocabulary, cross_entropy Settings = cross_entropy{}>
struct carried_cross_entropy {
  template <class In>
  struct on;

  template <class T, int... Extents>
  requires(sizeof...(Extents) > 0 && detail::is_floating(dtype_of<T>) &&
           detail::last_extent<tensor<T, Extents...>> == detail::carried::count) struct on<tensor<T, Extents...>>
      : of_kind<on<tensor<T, Extents...>>, detail::carried_cross_entropy_kernels<T, Settings>> {
    using output = bundle<>;
    static constexpr int rows = detail::rows_in<tensor<T, Extents...>>;
    static constexpr typename on::numbers sizes{rows, Vocabulary};

    static constexpr field fields[] = {{"labels", rows, dtype::int32, Vocabulary, false, Settings.ignored},
                                       {"weights", rows, dtype_of<T>, 0, true}};
    static constexpr partial partials[] = {"loss", "weight", "correct"};
    static constexpr bool predicts = false;
    static constexpr work cost{.forward = 5 * rows, .backward_input = 5 * rows, .bytes = 20 * rows};
  };
};

}  // namespace gpipe
