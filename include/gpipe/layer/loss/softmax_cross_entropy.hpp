#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

#include <gpipe/core/numbers/math.hpp>
#include <gpipe/layer/contract/bound.hpp>
#include <gpipe/layer/contract/extents.hpp>
#include <gpipe/layer/contract/operands.hpp>

namespace gpipe {

/// The cross-entropy loss of a classifier, over the last extent:
///
///     loss = weight (log sum_j e^x_j - x_label),    d loss / d x_j = weight (e^x_j / sum - [j = label])
///
/// Input tensor<T, ..., C>; a sample of tensor<T, 128, C> has 128 rows, each with a label and a weight. The field
/// "labels" is int32 below C; the field "weights" has type T (float for bf16) and is by default all ones. The output
/// is empty. The gradient is that of the sum; the commit divides by the sum of the weights. NaN and infinities in the
/// input give a NaN loss.
struct softmax_cross_entropy {
  template <class In>
  struct on;

  template <class T, int... Extents>
  requires(sizeof...(Extents) > 0 && detail::is_floating(dtype_of<T>)) struct on<tensor<T, Extents...>> {
    using input = tensor<T, Extents...>;
    using output = bundle<>;
    using number = compute_type<T>;
    static constexpr int classes = detail::last_extent<input>, rows = detail::rows_in<input>;

    /// The results of forward for a row. Backward computes the exponentials again, which takes less memory.
    struct summary {
      number top;      ///< the largest input, subtracted before the exponential
      number inverse;  ///< 1 / sum_j e^(x_j - top)
      number loss;     ///< without the weight
      number correct;  ///< 1 if the label is the first of the largest inputs, else 0
    };

    static constexpr field fields[] = {{"labels", rows, dtype::int32, classes},
                                       {"weights", rows, dtype_of<number>, 0, true}};
    static constexpr partial partials[] = {"loss", "weight", "correct"};
    static constexpr std::size_t summaries = std::size_t{rows} * sizeof(summary) / sizeof(number);
    static constexpr buffer extras[] = {{"summary", summaries, dtype_of<number>}};
    static constexpr keep keeps{.input = true};
    static constexpr std::int64_t elements = std::int64_t{rows} * classes;
    static constexpr number lowest = -std::numeric_limits<number>::infinity();
    static constexpr work cost{.forward = 20 * elements,
                               .backward_input = 20 * elements,
                               .bytes = static_cast<std::int64_t>(sizeof(T)) * elements};

    template <class C, class A>
    static void forward(const C& c, const A& a) {
      const std::ptrdiff_t count = std::ptrdiff_t{a.samples()} * rows;
      const auto* labels = a.template field<0, std::int32_t>();
      const auto* weights = a.template field<1, number>();
      auto* out = a.template extra<0, summary>();
      c.rows(count, summarise{a.in(), labels, out});
      if (double* partial = a.partials()) {
        c.sum(count, weighted<&summary::loss>{out, {weights}}, partial);
        c.sum(count, weight_of{weights}, partial + 1);
        c.sum(count, weighted<&summary::correct>{out, {weights}}, partial + 2);
      }
    }

    template <class C, class A>
    static void backward_input(const C& c, const A& a) {
      if (!a.in_gradient()) return;
      c.rows(std::ptrdiff_t{a.samples()} * rows,
             differentiate{a.in(), a.template field<0, std::int32_t>(), {a.template field<1, number>()},
                           a.template extra<0, summary>(), a.in_gradient()});
    }

    struct summarise {
      const T* in;
      const std::int32_t* labels;
      summary* out;
      template <class Team>
      GPIPE_HOST_DEVICE void operator()(std::ptrdiff_t row, const Team& team) const {
        const T* x = in + row * classes;
        const std::int32_t label = labels[row];
        const number top = team.maximum(classes, lowest, [x](std::ptrdiff_t j) { return number(x[j]); });
        const number total = team.sum(classes, [x, top](std::ptrdiff_t j) { return math::exp(x[j] - top); });
        const number equals =
            team.sum(label, [x, top](std::ptrdiff_t j) { return x[j] == top ? number(1) : number(0); });
        out[row] = {top, number(1) / total, std::log(total) + (top - x[label]),
                    x[label] == top && equals == number(0) ? number(1) : number(0)};
      }
    };

    struct weight_of {
      const number* weights;
      GPIPE_HOST_DEVICE number operator()(std::ptrdiff_t row) const { return weights ? weights[row] : number(1); }
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
      const summary* rows_;
      T* gradient;
      template <class Team>
      GPIPE_HOST_DEVICE void operator()(std::ptrdiff_t row, const Team& team) const {
        const T* x = in + row * classes;
        T* dx = gradient + row * classes;
        const std::int32_t label = labels[row];
        const number weight = weights(row), top = rows_[row].top, inverse = rows_[row].inverse;
        team.each(classes, [=](std::ptrdiff_t j) { dx[j] = weight * (math::exp(x[j] - top) * inverse); });
        team.each(1, [=](std::ptrdiff_t) {
          // For a probability near 1 the difference would be lost if the probability were rounded to bf16 first.
          if constexpr (std::is_same_v<T, number>) dx[label] -= weight;
          else dx[label] = weight * (math::exp(x[label] - top) * inverse) - weight;
        });
      }
    };
  };
};

}  // namespace gpipe
