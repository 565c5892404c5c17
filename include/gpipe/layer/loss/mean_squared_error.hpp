#pragma once

#include <cstddef>
#include <cstdint>

#include <gpipe/core/config.hpp>
#include <gpipe/layer/contract/bound.hpp>
#include <gpipe/layer/contract/operands.hpp>

namespace gpipe {

namespace detail {

template <class Function>
inline constexpr bool hits_of = requires {
  Function::hit(1.0F, 1.0F);
};

template <bool Hits>
struct loss_partials {
  static constexpr partial partials[] = {"loss", "weight"};
};
template <>
struct loss_partials<true> {
  static constexpr partial partials[] = {"loss", "weight", "correct"};
};

/// A loss that is a mean over the elements of a sample, of a function of an element x and its target t:
///
///     loss of a sample = weight (1/N) sum_j value(x_j, t_j),     d loss / d x_j = weight (1/N) slope(x_j, t_j)
///
/// `Function` has `value` and `slope` for every number type T, the `field` of its targets for N elements of a type,
/// and may have `hit`: whether x is a right answer, for the accuracy.
template <class Function>
struct elementwise_loss {
  template <class In>
  struct on;

  template <floating_tensor In>
  struct on<In> : loss_partials<hits_of<Function>> {
    using input = In;
    using T = typename In::value_type;
    using output = bundle<>;
    using number = compute_type<T>;
    static constexpr auto size = static_cast<std::ptrdiff_t>(input::size);
    static constexpr bool has_hits = hits_of<Function>;

    struct summary {
      number loss;  ///< without the weight
      number hits;  ///< the share of right answers
    };
    static constexpr field fields[] = {Function::field(input::size, dtype_of<number>),
                                       {"weights", 1, dtype_of<number>, 0, true}};
    static constexpr buffer forward_workspace[] = {{"summary", sizeof(summary) / sizeof(number), dtype_of<number>}};
    static constexpr keep keeps{.input = true};
    static constexpr work cost{.forward = Function::operations * size,
                               .backward_input = Function::operations * size,
                               .bytes = static_cast<std::int64_t>(sizeof(T) + sizeof(number)) * size};

    template <class C, class A>
    static void forward(const C& c, const A& a) {
      auto* out = a.template forward_workspace<0, summary>();
      double* const sums = a.partials();
      if (sums == nullptr) return;  // backward reads no result of forward
      c.rows(a.samples(), summarize{a.in(), a.template field<0, number>(), out});
      const weight_of weights{a.template field<1, number>()};
      c.sum_rows(a.samples(), weighted<&summary::loss>{out, weights}, sums);
      c.sum_rows(a.samples(), weights, sums + 1);
      if constexpr (has_hits) c.sum_rows(a.samples(), weighted<&summary::hits>{out, weights}, sums + 2);
    }
    template <class C, class A>
    static void backward_input(const C& c, const A& a) {
      if (!a.in_gradient()) return;
      c.rows(a.samples(),
             differentiate{a.in(), a.template field<0, number>(), {a.template field<1, number>()}, a.in_gradient()});
    }

    struct summarize {
      const T* in;
      const number* targets;
      summary* out;
      template <class Team>
      GPIPE_HOST_DEVICE void operator()(std::ptrdiff_t row, const Team& team) const {
        const T* x = in + row * size;
        const number* t = targets + row * size;
        const number loss =
            team.sum(size, [x, t](std::ptrdiff_t j) { return Function::value(number(x[j]), t[j]); }) / number(size);
        number hits = 0;
        if constexpr (has_hits)
          hits = team.sum(size, [x, t](std::ptrdiff_t j) { return number(Function::hit(number(x[j]), t[j])); }) /
                 number(size);
        out[row] = {loss, hits};
      }
    };
    struct weight_of {
      const number* weights;
      GPIPE_HOST_DEVICE number operator()(std::ptrdiff_t row) const { return weights ? weights[row] : number(1); }
    };
    template <number summary::*Member>
    struct weighted {
      const summary* rows;
      weight_of weights;
      GPIPE_HOST_DEVICE double operator()(std::ptrdiff_t row) const {
        return static_cast<double>(weights(row)) * static_cast<double>(rows[row].*Member);
      }
    };
    struct differentiate {
      const T* in;
      const number* targets;
      weight_of weights;
      T* gradient;
      template <class Team>
      GPIPE_HOST_DEVICE void operator()(std::ptrdiff_t row, const Team& team) const {
        const T* x = in + row * size;
        const number* t = targets + row * size;
        T* dx = gradient + row * size;
        const number scale = weights(row) / number(size);
        team.each(size, [=](std::ptrdiff_t j) { dx[j] = scale * Function::slope(number(x[j]), t[j]); });
      }
    };
  };
};

struct squared_error {
  static constexpr int operations = 4;
  static constexpr gpipe::field field(std::size_t size, dtype type) { return {"targets", size, type}; }
  template <class T>
  GPIPE_HOST_DEVICE static T value(T x, T t) {
    return (x - t) * (x - t);
  }
  template <class T>
  GPIPE_HOST_DEVICE static T slope(T x, T t) {
    return T(2) * (x - t);
  }
};

}  // namespace detail

/// The mean squared error of a regression, over the N elements of a sample:
///
///     loss = weight (1/N) sum_j (x_j - target_j)^2,    d loss / d x_j = weight (2/N) (x_j - target_j)
///
/// The mean over samples is PyTorch's MSELoss. The field "targets" has the shape of the input and type T (float for
/// bf16); the field "weights" has one number per sample and is by default all ones. There is no accuracy.
struct mean_squared_error : detail::elementwise_loss<detail::squared_error> {};

}  // namespace gpipe
