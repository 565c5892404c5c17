#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

#include <gpipe/core/numbers/double_bits.hpp>
#include <gpipe/core/tensors/feature_map.hpp>
#include <gpipe/layer/contract/bound.hpp>
#include <gpipe/layer/contract/channels.hpp>
#include <gpipe/layer/contract/operands.hpp>

namespace gpipe {

/// Settings of `batch_norm_with`, with PyTorch's names and defaults.
struct batch_statistics {
  double_bits epsilon = 1e-5;
  double_bits momentum = 0.1;  ///< how far an average moves towards a mini-batch's value
  bool biased = false;    ///< the average's variance is a sum over n, as torchgpipe's, and not over n - 1, as PyTorch's
};

/// Batch normalisation of each channel (Ioffe, Szegedy, 2015) in a pipeline (Huang et al., 2019). Training uses the
/// statistics of the micro-batch; evaluation uses moving averages of the statistics of whole mini-batches.
///
///     h = (x - mean) r,  r = 1 / sqrt(variance + epsilon),  y = weight h + bias
///     dx = weight r (dy - mean of dy - h mean of dy h)
///     average += momentum (value of the mini-batch - average), when a step is committed
///
/// A channel is an index of the first extent, as in PyTorch: in feature_map<T, C, H, W> and in tensor<T, C, H, W> a
/// mean is over samples, H and W; in tensor<T, C> each feature is a channel. Weight {C} and bias {C}. State: the
/// averages, "mean" {C} and "variance" {C}. Normalisation uses the biased variance, the average the unbiased one,
/// unless the settings say otherwise. Samples count equally, whatever their weights in the loss. A channel with one
/// element has variance 0; an unbiased average does not change then.
///
///     batch_norm_with<batch_statistics{.epsilon = 1e-3, .momentum = 0.0003}>       AmoebaNet's
template <batch_statistics Settings = batch_statistics{}>
struct batch_norm_with {
  static_assert(0 <= Settings.momentum && Settings.momentum <= 1,
                "gpipe: batch_norm: the averages' step, momentum or PerMille / 1000, must be in 0 ... 1");
  static_assert(Settings.epsilon > 0, "gpipe: batch_norm: epsilon, or Millionths / 1e6, must be above 0");

  template <class In>
  struct on;

  /// In pictures of some size, backward's input part keeps its sums for the parameter part: little memory beside the
  /// input.
  template <class T, int C, bool Shares>
  struct shared_sums {
    template <class A>
    static T* sums_of(const A&) {
      return nullptr;
    }
  };
  template <class T, int C>
  struct shared_sums<T, C, true> {
    static constexpr buffer extras[] = {{"sums", 2 * std::size_t{C}, dtype_of<T>, true}};  // of dy h, then of dy
    template <class A>
    static T* sums_of(const A& a) {
      return a.training() ? a.template extra<0>() : nullptr;
    }
  };

  /// The kernels for an edge whose samples each have `Rows` rows of the tensor `Row`.
  template <class Edge, class Row, int Rows>
  struct of_channels : shared_sums<compute_type<typename Edge::value_type>, Edge::extents[0], (Rows >= 64)> {
    using output = Edge;
    using T = typename Edge::value_type;
    using number = compute_type<T>;
    static constexpr int C = Edge::extents[0];
    static constexpr auto elements = static_cast<std::int64_t>(output::size);
    using channels = detail::channel_strips<Row>;
    static constexpr int lanes = channels::lanes;

    static constexpr parameter parameters[] = {{"weight", {C}, initialiser::ones()}, {"bias", {C}}};
    static constexpr parameter state[] = {{"mean", {C}, initialiser::zeros(), "running_mean"},
                                          {"variance", {C}, initialiser::ones(), "running_var"}};
    static constexpr partial partials[] = {{"mean", C}, {"squares", C}, "count"};  // squares of distances from the mean
    static constexpr keep keeps{.input = true};
    static constexpr work cost{.forward = 8 * elements,
                               .backward_input = 10 * elements,
                               .backward_parameters = Rows >= 64 ? 2 * C : 5 * elements,
                               .bytes = static_cast<std::int64_t>(2 * sizeof(T)) * elements};

    template <class Context, class A>
    static void forward(const Context& c, const A& a) {
      if (double* written = a.training() ? a.partials() : nullptr) {
        c.rows(channels::strips, measure{a.in(), a.samples() * Rows, written});
        c.fill(1, static_cast<double>(a.samples() * Rows * channels::inner), written + 2 * C);
      }
      c.rows(channels::strips, normalise{channel_input_of(a, a.partials() ? a.partials() : a.recorded_partials()),
                                         a.template parameter<0>(), a.template parameter<1>(), a.out()});
    }
    template <class Context, class A>
    static void backward_input(const Context& c, const A& a) {
      if (!a.in_gradient()) return;
      c.rows(channels::strips, differentiate{channel_input_of(a, a.recorded_partials()), a.out_gradient(),
                                             a.template parameter<0>(), a.in_gradient(), of_channels::sums_of(a)});
    }
    template <class Context, class A>
    static void backward_parameters(const Context& c, const A& a) {
      if (const number* sums = a.in_gradient() ? of_channels::sums_of(a) : nullptr) {
        c.add(C, sums, a.template gradient<0>());
        c.add(C, sums + C, a.template gradient<1>());
        return;
      }
      c.rows(channels::strips, add_up{channel_input_of(a, a.recorded_partials()), a.out_gradient(),
                                      a.template gradient<0>(), a.template gradient<1>()});
    }
    template <class Context, class A>
    static void absorb(const Context& c, const A& a) noexcept {
      c.each(C, merge{a.all_partials(), a.template state<0>(), a.template state<1>()});
    }

    // The input and its channels' statistics: in training those of the micro-batch, else the averages.
    struct channel_input {
      const T* in;
      int samples;
      const double* found;
      const number *average_mean, *average_variance;
      GPIPE_HOST_DEVICE number mean(std::ptrdiff_t channel) const {
        return found ? static_cast<number>(found[channel]) : average_mean[channel];
      }
      GPIPE_HOST_DEVICE number inverse(std::ptrdiff_t channel) const {
        const double variance =
            found ? found[C + channel] / found[2 * C] : static_cast<double>(average_variance[channel]);
        return static_cast<number>(1 / std::sqrt(variance + Settings.epsilon));
      }
    };
    template <class A>
    static channel_input channel_input_of(const A& a, const double* recorded) {
      return {a.in(), a.samples() * Rows, a.training() ? recorded : nullptr, a.template state<0>(),
              a.template state<1>()};
    }

    struct measure {
      const T* in;
      int samples;
      double* partials;
      template <class Team>
      GPIPE_HOST_DEVICE void operator()(std::ptrdiff_t strip, const Team& team) const {
        const T* x = in;
        const std::ptrdiff_t first = strip * lanes;
        const auto count = static_cast<double>(samples * channels::inner);
        double mean[std::size_t{lanes}], squares[std::size_t{lanes}];
        if constexpr (lanes > 1) {  // one pass, with distances from the first row: no difference of large squares
          const T* start = x + first;
          channels::two_sums(team, samples, first, mean, squares,
                             [=](double& sum, double& square, std::ptrdiff_t i, std::ptrdiff_t lane) {
                               const double off = static_cast<double>(x[i]) - static_cast<double>(start[lane]);
                               sum += off;
                               square += off * off;
                             });
          channels::each_lane(team, channels::width(first), [&, start](std::ptrdiff_t lane) {
            const double middle = mean[lane] / count, found = squares[lane] - middle * mean[lane];
            mean[lane] = static_cast<double>(start[lane]) + middle;
            squares[lane] = found < 0 ? 0 : found;
          });
        } else {
          channels::sum(team, samples, first, mean, [=](std::ptrdiff_t i, std::ptrdiff_t) { return x[i]; });
          channels::each_lane(team, lanes, [&](std::ptrdiff_t lane) { mean[lane] /= count; });
          channels::sum(team, samples, first, squares, [=, &mean](std::ptrdiff_t i, std::ptrdiff_t lane) {
            const double off = static_cast<double>(x[i]) - mean[lane];
            return off * off;
          });
        }
        team.each(channels::width(first), [&](std::ptrdiff_t lane) {
          partials[first + lane] = mean[lane];
          partials[C + first + lane] = squares[lane];
        });
      }
    };

    struct normalise {
      channel_input of;
      const number *weight, *bias;
      T* out;
      template <class Team>
      GPIPE_HOST_DEVICE void operator()(std::ptrdiff_t strip, const Team& team) const {
        const T* x = of.in;
        const number *w = weight, *b = bias;
        T* y = out;
        const std::ptrdiff_t first = strip * lanes;
        const strip_statistics by(team, first, of);
        channels::each(team, of.samples, first, [=, &by](std::ptrdiff_t i, std::ptrdiff_t lane) {
          y[i] = by.normal(x[i], lane) * w[first + lane] + b[first + lane];
        });
      }
    };

    struct differentiate {
      channel_input of;
      const T* out_gradient;
      const number* weight;
      T* in_gradient;
      number* sums;
      template <class Team>
      GPIPE_HOST_DEVICE void operator()(std::ptrdiff_t strip, const Team& team) const {
        const T *x = of.in, *dy = out_gradient;
        const number* w = weight;
        T* dx = in_gradient;
        const std::ptrdiff_t first = strip * lanes;
        const strip_statistics by(team, first, of);
        double along_one[std::size_t{lanes}] = {}, along_h[std::size_t{lanes}] = {};
        if (of.found) {  // averages do not depend on x
          add_along(team, of, first, dy, by, along_one, along_h);
          if (number* into = sums)
            team.each(channels::width(first), [=, &along_one, &along_h](std::ptrdiff_t lane) {
              into[first + lane] = static_cast<number>(along_h[lane]);
              into[C + first + lane] = static_cast<number>(along_one[lane]);
            });
          const auto count = static_cast<double>(of.samples * channels::inner);
          channels::each_lane(team, lanes,
                              [&](std::ptrdiff_t lane) { along_one[lane] /= count, along_h[lane] /= count; });
        }
        channels::each(team, of.samples, first, [=, &by, &along_one, &along_h](std::ptrdiff_t i, std::ptrdiff_t lane) {
          dx[i] = w[first + lane] * by.inverse[lane] *
                  (dy[i] - static_cast<number>(along_one[lane]) -
                   by.normal(x[i], lane) * static_cast<number>(along_h[lane]));
        });
      }
    };

    struct add_up {
      channel_input of;
      const T* out_gradient;
      number *weight, *bias;
      template <class Team>
      GPIPE_HOST_DEVICE void operator()(std::ptrdiff_t strip, const Team& team) const {
        const std::ptrdiff_t first = strip * lanes;
        double of_bias[std::size_t{lanes}], of_weight[std::size_t{lanes}];
        add_along(team, of, first, out_gradient, strip_statistics(team, first, of), of_bias, of_weight);
        number *w = weight + first, *b = bias + first;
        team.each(channels::width(first), [&](std::ptrdiff_t lane) {
          w[lane] += static_cast<number>(of_weight[lane]);
          b[lane] += static_cast<number>(of_bias[lane]);
        });
      }
    };

    // The statistics of a strip, loaded once.
    struct strip_statistics {
      number mean[std::size_t{lanes}] = {}, inverse[std::size_t{lanes}] = {};
      template <class Team>
      GPIPE_HOST_DEVICE strip_statistics(const Team& team, std::ptrdiff_t first, const channel_input& of) {
        channels::each_lane(team, channels::width(first), [&](std::ptrdiff_t lane) {
          mean[lane] = of.mean(first + lane);
          inverse[lane] = of.inverse(first + lane);
        });
      }
      GPIPE_HOST_DEVICE number normal(number x, std::ptrdiff_t lane) const { return (x - mean[lane]) * inverse[lane]; }
    };

    // The sums of dy and of dy h over each channel.
    template <class Team>
    GPIPE_HOST_DEVICE static void add_along(const Team& team, const channel_input& of, std::ptrdiff_t first,
                                            const T* dy, const strip_statistics& by, double* along_one,
                                            double* along_h) {
      const T* x = of.in;
      if constexpr (channels::lanes > 1) {  // both in one pass
        team.each(lanes, [=](std::ptrdiff_t lane) { along_one[lane] = along_h[lane] = 0; });
        channels::each(team, of.samples, first, [=, &by](std::ptrdiff_t i, std::ptrdiff_t lane) {
          const number d = dy[i];
          along_one[lane] += static_cast<double>(d);
          along_h[lane] += static_cast<double>(d * by.normal(x[i], lane));
        });
      } else {
        channels::sum(team, of.samples, first, along_one, [=](std::ptrdiff_t i, std::ptrdiff_t) { return dy[i]; });
        channels::sum(team, of.samples, first, along_h,
                      [=, &by](std::ptrdiff_t i, std::ptrdiff_t lane) { return dy[i] * by.normal(x[i], lane); });
      }
    }

    // Micro-batches are combined one by one, as by Chan, Golub and LeVeque (1979): no difference of large squares.
    struct merge {
      partial_list partials;
      number *mean, *variance;
      GPIPE_HOST_DEVICE void operator()(std::ptrdiff_t channel) const {
        double count = 0, middle = 0, squares = 0;
        GPIPE_NOT_UNROLLED
        for (int m = 0; m < partials.micro_batches; ++m) {
          const double more = partials[m][2 * C], off = partials[m][channel] - middle, all = count + more;
          squares += partials[m][C + channel] + off * off * (count * more / all);
          middle += off * (more / all);
          count = all;
        }
        move(mean[channel], middle);
        if (Settings.biased) move(variance[channel], squares / count);
        else if (count > 1) move(variance[channel], squares / (count - 1));
      }
      GPIPE_HOST_DEVICE static void move(number& average, double found) {
        const auto old = static_cast<double>(average);
        average = static_cast<number>(old + Settings.momentum * (found - old));
      }
    };
  };

  template <class T, int C, int... Extents>
  requires(detail::is_floating(dtype_of<T>)) struct on<tensor<T, C, Extents...>>
      : of_channels<tensor<T, C, Extents...>, tensor<T, C, Extents...>, 1> {
  };

  // A pixel is a sample whose features are the channels.
  template <class T, int C, int H, int W>
  requires(detail::is_floating(dtype_of<T>)) struct on<feature_map<T, C, H, W>>
      : of_channels<feature_map<T, C, H, W>, tensor<T, C>, H * W> {
  };
};

/// The same with the settings in whole numbers: momentum = `PerMille` / 1000, epsilon = `Millionths` / 1e6.
template <int PerMille = 100, int Millionths = 10>
struct batch_norm : batch_norm_with<batch_statistics{.epsilon = Millionths * 1e-6, .momentum = PerMille / 1000.0}> {};

}  // namespace gpipe
