#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

#include <gpipe/core/numbers/double_bits.hpp>
#include <gpipe/core/numbers/math.hpp>
#include <gpipe/core/numbers/multiply_add.hpp>
#include <gpipe/core/tensors/array_function.hpp>
#include <gpipe/layer/contract/bound.hpp>
#include <gpipe/layer/contract/extents.hpp>
#include <gpipe/layer/contract/operands.hpp>
#include <gpipe/layer/loss/cross_entropy_options.hpp>

namespace gpipe {

namespace detail {

/// The kernels of a cross-entropy with these settings. Backward computes the exponentials again, which takes less
/// memory than keeping them.
template <class T, cross_entropy Settings>
struct cross_entropy_kernels {
  using value_type = T;
  using number = compute_type<T>;
  using numbers = row_sizes;
  static constexpr keep keeps{.input = true};
  static constexpr bool smooths = Settings.smoothing > 0, ignores = Settings.ignored != no_label,
                        clips = Settings.clip > 0;
  static constexpr auto on_label = number(1 - Settings.smoothing);
  static constexpr number lowest = -std::numeric_limits<number>::infinity();

  /// The results of forward for a row.
  struct summary {
    number top;      ///< the largest input, subtracted before the exponential
    number inverse;  ///< 1 / sum_j e^(x_j - top)
    number loss;     ///< without the weight
    number correct;  ///< 1 if the label is the first of the largest inputs, else 0
  };

  GPIPE_HOST_DEVICE static number elsewhere(int classes) { return number(Settings.smoothing / classes); }

  template <class C, class A>
  static void forward(const C& c, const A& a) {
    const row_sizes sizes = a.sizes();
    const std::ptrdiff_t count = sizes.count(a.samples());
    const auto* labels = a.template field<0, std::int32_t>();
    const auto* weights = a.template field<1, number>();
    auto* out = a.template extra<0, summary>();
    c.rows(count, summarize{a.in(), labels, out, limit_in(a.training()), sizes.width});
    // change: a loss; the partials loss and weight
    // change: a metric
    if (double* partial = a.partials()) {
      c.sum_rows(count, weighted<&summary::loss>{out, {weights, labels}}, partial);
      c.sum_rows(count, weight_of{weights, labels}, partial + 1);
      c.sum_rows(count, weighted<&summary::correct>{out, {weights, labels}}, partial + 2);
    }
  }

  /// The gradient may overwrite the input.
  template <class C, class A>
  static void backward_input(const C& c, const A& a) {
    if (!a.in_gradient()) return;
    const auto* labels = a.template field<0, std::int32_t>();
    c.rows(a.sizes().count(a.samples()), differentiate{a.in(),
                                                       labels,
                                                       {a.template field<1, number>(), labels},
                                                       a.template extra<0, summary>(),
                                                       a.in_gradient(),
                                                       limit_in(a.training()),
                                                       a.sizes().width});
  }

  static constexpr number limit_in(bool training) {
    return clips && training ? number(Settings.clip) : std::numeric_limits<number>::infinity();
  }
  GPIPE_HOST_DEVICE static bool is_ignored(std::int32_t label) { return ignores && label == Settings.ignored; }
  // NaN stays NaN.
  GPIPE_HOST_DEVICE static number clamped(number x, number limit) {
    if constexpr (!clips) return x;
    else return x > limit ? limit : x < -limit ? -limit : x;
  }

  struct summarize {
    const T* in;
    const std::int32_t* labels;
    summary* out;
    number limit;
    int classes;
    std::ptrdiff_t row_width() const { return classes; }
    template <class Team>
    GPIPE_HOST_DEVICE void operator()(std::ptrdiff_t row, const Team& team) const {
      const std::ptrdiff_t count = classes;
      const T* inputs = in + row * count;
      const std::int32_t label = labels[row];
      if constexpr (ignores)
        if (is_ignored(label)) return team.each(1, [this, row](std::ptrdiff_t) { out[row] = summary{}; });
      const auto value = [](std::ptrdiff_t j, auto x) { return number(x[j]); };
      const number top = team.maximum(count, lowest, array_function{value, inputs});
      const auto is_top = [top](std::ptrdiff_t j, auto x) { return x[j] == top ? number(1) : number(0); };
      const number equals = team.sum(label, array_function{is_top, inputs});
      const number hit = inputs[label] == top && equals == number(0) ? number(1) : number(0);
      const number max = clamped(top, limit), bound = limit;
      const auto power = [max, bound](std::ptrdiff_t j, auto x) {
        return math::exp(clamped(number(x[j]), bound) - max);
      };
      const number total = team.sum(count, array_function{power, inputs});
      number loss = multiply_add(on_label, max - clamped(number(inputs[label]), bound), math::log_alone(total));
      const auto below = [max, bound](std::ptrdiff_t j, auto x) { return max - clamped(number(x[j]), bound); };
      if constexpr (smooths)
        loss = multiply_add(elsewhere(classes), team.sum(count, array_function{below, inputs}), loss);
      out[row] = {max, number(1) / total, loss, hit};
    }
  };

  struct weight_of {
    const number* weights;
    const std::int32_t* labels;
    GPIPE_HOST_DEVICE number operator()(std::ptrdiff_t row) const {
      if (is_ignored(labels[row])) return number(0);
      return weights ? weights[row] : number(1);
    }
  };

  template <number summary::*Member>
  struct weighted {
    const summary* rows_;
    weight_of weights;
    GPIPE_HOST_DEVICE double operator()(std::ptrdiff_t row) const {
      return static_cast<double>(weights(row)) * static_cast<double>(rows_[row].*Member);
    }
  };

  struct differentiate {
    const T* in;
    const std::int32_t* labels;
    weight_of weights;
    summary* rows_;
    T* gradient;
    number limit;
    int classes;
    std::ptrdiff_t row_width() const { return classes; }
    template <class Team>
    GPIPE_HOST_DEVICE void operator()(std::ptrdiff_t row, const Team& team) const {
      const std::ptrdiff_t count = classes;
      const T* inputs = in + row * count;
      T* gradients = gradient + row * count;
      const std::int32_t label = labels[row];
      const auto zero = [](std::ptrdiff_t j, auto dx) { dx[j] = number(0); };
      if constexpr (ignores)
        if (is_ignored(label)) return team.each(count, array_function{zero, gradients});
      const number weight = weights(row), top = rows_[row].top, inverse = rows_[row].inverse;
      if constexpr (clips || smooths) {
        const number bound = limit, off_label = elsewhere(classes);
        // The slope of one class, without the term of the label.
        const auto slope = [=](std::ptrdiff_t j, auto x) {
          return weight * multiply_add(math::exp(clamped(number(x[j]), bound) - top), inverse, -off_label);
        };
        const auto passes = [bound](std::ptrdiff_t j, auto x) {
          return number(x[j]) >= -bound && number(x[j]) <= bound;
        };
        number* const label_gradient = keep_here(row);
        team.each(1, [=](std::ptrdiff_t) {
          *label_gradient = passes(label, inputs) ? multiply_add(-weight, on_label, slope(label, inputs)) : number(0);
        });
        const auto write = [=](std::ptrdiff_t j, auto dx, auto x) { dx[j] = passes(j, x) ? slope(j, x) : number(0); };
        team.each(count, array_function{write, gradients, inputs});
        team.each(1, [=](std::ptrdiff_t) { gradients[label] = *label_gradient; });
      } else {
        const auto write = [=](std::ptrdiff_t j, auto dx, auto x) {
          dx[j] = weight * (math::exp(x[j] - top) * inverse);
        };
        if constexpr (std::is_same_v<T, number>) {
          team.each(count, array_function{write, gradients, inputs});
          team.each(1, [=](std::ptrdiff_t) { gradients[label] -= weight; });
        } else {
          // For a probability near 1 the difference would be lost if the probability were rounded to bf16 first.
          number* const label_gradient = keep_here(row);
          team.each(1, [=](std::ptrdiff_t) {
            *label_gradient = multiply_add(weight, math::exp(inputs[label] - top) * inverse, -weight);
          });
          team.each(count, array_function{write, gradients, inputs});
          team.each(1, [=](std::ptrdiff_t) { gradients[label] = *label_gradient; });
        }
      }
    }
    // Stores the gradient of the label's input, before the input may be overwritten. Backward does not read the loss.
    GPIPE_HOST_DEVICE number* keep_here(std::ptrdiff_t row) const { return &rows_[row].loss; }
  };
};

}  // namespace detail

/// The cross-entropy loss of a classifier, over the last extent, with the target t and the clamped inputs z:
///
///     loss = weight (log sum_j e^z_j - sum_j t_j z_j),    d loss / d x_j = weight (e^z_j / sum - t_j) [|x_j| <= clip]
///
/// Fields, rows, weights and the output are as in `softmax_cross_entropy`; "correct" uses the inputs before clamping.
template <cross_entropy Settings = cross_entropy{}>
struct softmax_cross_entropy_with {
  static_assert(Settings.smoothing >= 0 && Settings.smoothing <= 1,
                "gpipe: cross_entropy{.smoothing} must be in 0 ... 1");
  static_assert(Settings.clip >= 0 && Settings.clip <= static_cast<double>((std::numeric_limits<float>::max)()),
                "gpipe: cross_entropy{.clip} must be a float above 0, or 0 for no clipping");

  template <class In>
  struct on;

  template <class T, int... Extents>
  requires(sizeof...(Extents) > 0 && detail::is_floating(dtype_of<T>)) struct on<tensor<T, Extents...>>
      : of_kind<on<tensor<T, Extents...>>, detail::cross_entropy_kernels<T, Settings>> {
    using input = tensor<T, Extents...>;
    using output = bundle<>;
    using number = compute_type<T>;
    static constexpr detail::row_sizes sizes = detail::row_sizes_of<input>;
    static constexpr int classes = sizes.width, rows = sizes.rows;

    static constexpr field fields[] = {{"labels", rows, dtype::int32, classes, false, Settings.ignored},
                                       {"weights", rows, dtype_of<number>, 0, true}};
    static constexpr partial partials[] = {"loss", "weight", "correct"};
    static constexpr std::size_t summaries = std::size_t{rows} * sizeof(typename on::summary) / sizeof(number);
    static constexpr buffer extras[] = {{"summary", summaries, dtype_of<number>}};
    static constexpr std::int64_t elements = std::int64_t{rows} * classes;
    static constexpr work cost{.forward = 20 * elements,
                               .backward_input = 20 * elements,
                               .bytes = static_cast<std::int64_t>(sizeof(T)) * elements};
  };
};

/// The cross-entropy loss of a classifier, over the last extent:
///
///     loss = weight (log sum_j e^x_j - x_label),    d loss / d x_j = weight (e^x_j / sum - [j = label])
///
/// Input tensor<T, ..., C>; a sample of tensor<T, 128, C> has 128 rows, each with a label and a weight. The field
/// "labels" is int32 below C; the field "weights" has type T (float for bf16) and is by default all ones. The output
/// is empty. The gradient is the sum's; the commit divides by the sum of the weights. NaN and infinities in the
/// input give a NaN loss.
struct softmax_cross_entropy : softmax_cross_entropy_with<> {};

}  // namespace gpipe
