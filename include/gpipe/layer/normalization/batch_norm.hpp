#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

#include <gpipe/core/config.hpp>
#include <gpipe/core/numbers/double_bits.hpp>
#include <gpipe/core/numbers/multiply_add.hpp>
#include <gpipe/core/tensors/tensor.hpp>
#include <gpipe/layer/contract/bound.hpp>
#include <gpipe/layer/contract/channels.hpp>
#include <gpipe/layer/contract/operands.hpp>

namespace gpipe {

/// Settings of `batch_norm_with`, with PyTorch's names and defaults.
struct batch_statistics {
  double_bits epsilon = 1e-5;
  double_bits momentum = 0.1;  ///< how far an average moves towards a mini-batch's value
  bool biased = false;  ///< the average's variance is a sum over n, as torchgpipe's, and not over n - 1, as PyTorch's
};

namespace detail {

/// The kernels of `batch_norm` for edges of one element type; the channels are side by side, or one after the other.
template <class T, bool SideBySide>
struct batch_norm_kernels {
  using value_type = T;
  using number = compute_type<T>;
  using channels = channel_strips<SideBySide>;
  static constexpr keep keeps{.input = true};

  struct numbers {
    channels along;
    int rows_in_sample;  ///< a sample has this number of rows, of all channels each
    bool shares;         ///< backward's input part keeps its sums for the parameter part
    batch_statistics settings;

    constexpr int rows(int samples) const { return samples * rows_in_sample; }
  };

  template <class Context, class A>
  static void forward(const Context& c, const A& a) {
    const numbers& sizes = a.sizes();
    if (double* written = a.training() ? a.partials() : nullptr) {
      const int rows = sizes.rows(a.samples());
      sizes.along.each_part(c, measure{a.in(), rows, written});
      c.fill(1, static_cast<double>(rows * sizes.along.inner), written + 2 * sizes.along.count);
    }
    sizes.along.each_part(c, normalize{channel_input_of(a, a.partials() ? a.partials() : a.recorded_partials()),
                                       a.template parameter<0>(), a.template parameter<1>(), a.out()});
  }
  template <class Context, class A>
  static void backward_input(const Context& c, const A& a) {
    if (!a.in_gradient()) return;
    a.sizes().along.each_part(c, differentiate{channel_input_of(a, a.recorded_partials()), a.out_gradient(),
                                               a.template parameter<0>(), a.in_gradient(), sums_of(a)});
  }
  template <class Context, class A>
  static void backward_parameters(const Context& c, const A& a) {
    const channels& along = a.sizes().along;
    if (const number* sums = a.in_gradient() ? sums_of(a) : nullptr) {
      c.add(along.count, sums, a.template gradient<0>());
      c.add(along.count, sums + along.count, a.template gradient<1>());
      return;
    }
    along.each_part(c, add_up{channel_input_of(a, a.recorded_partials()), a.out_gradient(), a.template gradient<0>(),
                              a.template gradient<1>()});
  }
  template <class Context, class A>
  static void update_state(const Context& c, const A& a) noexcept {
    const int count = a.sizes().along.count;
    c.each(count, merge{a.all_partials(), count, a.sizes().settings, a.template state<0>(), a.template state<1>()});
  }

  // Sums of dy h, then of dy.
  template <class A>
  static number* sums_of(const A& a) {
    return a.sizes().shares && a.training() ? a.template backward_extra<0, number>() : nullptr;
  }

  // The input and its channels' statistics: in training the micro-batch's, else the averages.
  struct channel_input {
    const T* in;
    int samples, channel_count;
    double epsilon;
    const double* found;
    const number *average_mean, *average_variance;
    GPIPE_HOST_DEVICE number mean(std::ptrdiff_t channel) const {
      return found ? static_cast<number>(found[channel]) : average_mean[channel];
    }
    GPIPE_HOST_DEVICE number inverse(std::ptrdiff_t channel) const {
      const double variance = found ? found[channel_count + channel] / found[2 * channel_count]
                                    : static_cast<double>(average_variance[channel]);
      return static_cast<number>(1 / std::sqrt(variance + epsilon));
    }
  };
  template <class A>
  static channel_input channel_input_of(const A& a, const double* recorded) {
    const numbers& sizes = a.sizes();
    return {a.in(),
            sizes.rows(a.samples()),
            sizes.along.count,
            sizes.settings.epsilon,
            a.training() ? recorded : nullptr,
            a.template state<0>(),
            a.template state<1>()};
  }

  struct measure {
    const T* in;
    int samples;
    double* partials;
    template <class Lanes, class Team>
    GPIPE_HOST_DEVICE void operator()(const channels& along, std::ptrdiff_t first, Lanes lanes,
                                      const Team& team) const {
      const T* x = in;
      const auto count = static_cast<double>(samples * along.inner);
      double mean[std::size_t{channels::max_lanes}], squares[std::size_t{channels::max_lanes}];
      if constexpr (SideBySide) {  // one pass over distances from the first row: no large squares are subtracted
        const T* start = x + first;
        along.two_sums(team, samples, first, lanes, mean, squares,
                       [=](double& sum, double& square, std::ptrdiff_t i, std::ptrdiff_t lane) {
                         const double off = static_cast<double>(x[i]) - static_cast<double>(start[lane]);
                         sum += off;
                         square = multiply_add(off, off, square);
                       });
        channels::each_lane(team, lanes, [&, start](std::ptrdiff_t lane) {
          const double middle = mean[lane] / count, found = multiply_add(-middle, mean[lane], squares[lane]);
          mean[lane] = static_cast<double>(start[lane]) + middle;
          squares[lane] = found < 0 ? 0 : found;
        });
      } else {
        along.sum(team, samples, first, lanes, mean, [=](std::ptrdiff_t i, std::ptrdiff_t) { return x[i]; });
        channels::each_lane(team, lanes, [&](std::ptrdiff_t lane) { mean[lane] /= count; });
        along.sum(team, samples, first, lanes, squares, [=, &mean](std::ptrdiff_t i, std::ptrdiff_t lane) {
          const double off = static_cast<double>(x[i]) - mean[lane];
          return off * off;
        });
      }
      team.each(lanes, [&](std::ptrdiff_t lane) {
        partials[first + lane] = mean[lane];
        partials[along.count + first + lane] = squares[lane];
      });
    }
  };

  struct normalize {
    channel_input input;
    const number *weight, *bias;
    T* out;
    template <class Lanes, class Team>
    GPIPE_HOST_DEVICE void operator()(const channels& along, std::ptrdiff_t first, Lanes lanes,
                                      const Team& team) const {
      const T* x = input.in;
      const number *w = weight, *b = bias;
      T* y = out;
      const strip_statistics statistics(team, first, lanes, input);
      along.each(team, input.samples, first, lanes, [=, &statistics](std::ptrdiff_t i, std::ptrdiff_t lane) {
        y[i] = multiply_add(statistics.normal(x[i], lane), w[first + lane], b[first + lane]);
      });
    }
  };

  struct differentiate {
    channel_input input;
    const T* out_gradient;
    const number* weight;
    T* in_gradient;
    number* sums;
    template <class Lanes, class Team>
    GPIPE_HOST_DEVICE void operator()(const channels& along, std::ptrdiff_t first, Lanes lanes,
                                      const Team& team) const {
      const T *x = input.in, *dy = out_gradient;
      const number* w = weight;
      T* dx = in_gradient;
      const strip_statistics statistics(team, first, lanes, input);
      double along_one[std::size_t{channels::max_lanes}], along_h[std::size_t{channels::max_lanes}];
      channels::each_lane(team, lanes, [&](std::ptrdiff_t lane) { along_one[lane] = along_h[lane] = 0; });
      if (input.found) {  // averages do not depend on x
        add_along(team, along, input, first, lanes, dy, statistics, along_one, along_h);
        if (number* kept_sums = sums)
          team.each(lanes, [=, C = along.count, &along_one, &along_h](std::ptrdiff_t lane) {
            kept_sums[first + lane] = static_cast<number>(along_h[lane]);
            kept_sums[C + first + lane] = static_cast<number>(along_one[lane]);
          });
        const auto count = static_cast<double>(input.samples * along.inner);
        channels::each_lane(team, lanes,
                            [&](std::ptrdiff_t lane) { along_one[lane] /= count, along_h[lane] /= count; });
      }
      along.each(team, input.samples, first, lanes,
                 [=, &statistics, &along_one, &along_h](std::ptrdiff_t i, std::ptrdiff_t lane) {
                   dx[i] = w[first + lane] * statistics.inverse[lane] *
                           multiply_add(-statistics.normal(x[i], lane), static_cast<number>(along_h[lane]),
                                        dy[i] - static_cast<number>(along_one[lane]));
                 });
    }
  };

  struct add_up {
    channel_input input;
    const T* out_gradient;
    number *weight, *bias;
    template <class Lanes, class Team>
    GPIPE_HOST_DEVICE void operator()(const channels& along, std::ptrdiff_t first, Lanes lanes,
                                      const Team& team) const {
      double of_bias[std::size_t{channels::max_lanes}], of_weight[std::size_t{channels::max_lanes}];
      add_along(team, along, input, first, lanes, out_gradient, strip_statistics(team, first, lanes, input), of_bias,
                of_weight);
      number *w = weight + first, *b = bias + first;
      team.each(lanes, [&](std::ptrdiff_t lane) {
        w[lane] += static_cast<number>(of_weight[lane]);
        b[lane] += static_cast<number>(of_bias[lane]);
      });
    }
  };

  // The statistics of a strip, loaded once.
  struct strip_statistics {
    number mean[std::size_t{channels::max_lanes}], inverse[std::size_t{channels::max_lanes}];
    template <class Team, class Lanes>
    GPIPE_HOST_DEVICE strip_statistics(const Team& team, std::ptrdiff_t first, Lanes lanes,
                                       const channel_input& input) {
      channels::each_lane(team, lanes, [&](std::ptrdiff_t lane) {
        mean[lane] = input.mean(first + lane);
        inverse[lane] = input.inverse(first + lane);
      });
    }
    GPIPE_HOST_DEVICE number normal(number x, std::ptrdiff_t lane) const { return (x - mean[lane]) * inverse[lane]; }
  };

  // The sums of dy and of dy h over each channel.
  template <class Team, class Lanes>
  GPIPE_HOST_DEVICE static void add_along(const Team& team, const channels& along, const channel_input& input,
                                          std::ptrdiff_t first, Lanes lanes, const T* dy,
                                          const strip_statistics& statistics, double* along_one, double* along_h) {
    const T* x = input.in;
    if constexpr (SideBySide) {  // both in one pass
      team.each(lanes, [=](std::ptrdiff_t lane) { along_one[lane] = along_h[lane] = 0; });
      along.each(team, input.samples, first, lanes, [=, &statistics](std::ptrdiff_t i, std::ptrdiff_t lane) {
        const number d = dy[i];
        along_one[lane] += static_cast<double>(d);
        along_h[lane] = add_product(along_h[lane], d, statistics.normal(x[i], lane));
      });
    } else {
      along.sum(team, input.samples, first, lanes, along_one, [=](std::ptrdiff_t i, std::ptrdiff_t) { return dy[i]; });
      along.sum(team, input.samples, first, lanes, along_h, [=, &statistics](std::ptrdiff_t i, std::ptrdiff_t lane) {
        return dy[i] * statistics.normal(x[i], lane);
      });
    }
  }

  // Combines micro-batches one by one, as Chan, Golub and LeVeque (1979) do: no large squares are subtracted.
  struct merge {
    partial_list partials;
    int channels;
    batch_statistics settings;
    number *mean, *variance;
    GPIPE_HOST_DEVICE void operator()(std::ptrdiff_t channel) const {
      double count = 0, middle = 0, squares = 0;
      GPIPE_NOT_UNROLLED
      for (int m = 0; m < partials.micro_batches; ++m) {
        const double more = partials[m][2 * channels], off = partials[m][channel] - middle, total = count + more;
        squares = multiply_add(off * off, count * more / total, squares + partials[m][channels + channel]);
        middle = multiply_add(off, more / total, middle);
        count = total;
      }
      move(mean[channel], middle);
      if (settings.biased) move(variance[channel], squares / count);
      else if (count > 1) move(variance[channel], squares / (count - 1));
    }
    GPIPE_HOST_DEVICE void move(number& average, double found) const {
      const auto old = static_cast<double>(average);
      average = static_cast<number>(multiply_add(double{settings.momentum}, found - old, old));
    }
  };
};

}  // namespace detail

/// Batch normalization of each channel (Ioffe, Szegedy, 2015) in a pipeline (Huang et al., 2019). Training uses the
/// statistics of the micro-batch; evaluation uses moving averages of the statistics of whole mini-batches.
///
///     h = (x - mean) r,  r = 1 / sqrt(variance + epsilon),  y = weight h + bias
///     dx = weight r (dy - mean of dy - h mean of dy h)
///     average += momentum (value of the mini-batch - average), when a step is committed
///
/// A channel is an index of the first extent, as in PyTorch: in feature_map<T, C, H, W> and in tensor<T, C, H, W> a
/// mean is over samples, H and W; in tensor<T, C> each feature is a channel. Weight {C} and bias {C}. State: the
/// averages, "mean" {C} and "variance" {C}. Normalization uses the biased variance, the average the unbiased one,
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

  /// In images of some size, backward's input part keeps its sums for the parameter part.
  template <class number, int C, bool Shares>
  struct shared_sums {};
  template <class number, int C>
  struct shared_sums<number, C, true> {
    static constexpr buffer backward_extras[] = {
        {"sums", 2 * std::size_t{C}, dtype_of<number>, true}};  // of dy h, then of dy
  };

  /// For an edge whose samples have `Rows` rows of the channels each; a channel of a row has `Inner` elements.
  template <class Edge, int Rows, int Inner>
  struct of_channels : of_kind<on<Edge>, detail::batch_norm_kernels<typename Edge::value_type, Inner == 1>>,
                       shared_sums<compute_type<typename Edge::value_type>, Edge::extents[0], (Rows >= 64)> {
    using output = Edge;
    using T = typename Edge::value_type;
    static constexpr int C = Edge::extents[0];
    static constexpr auto elements = static_cast<std::int64_t>(output::size);
    static constexpr typename of_channels::numbers sizes{{C, Inner}, Rows, Rows >= 64, Settings};

    static constexpr parameter parameters[] = {{"weight", {C}, initializer::ones()}, {"bias", {C}}};
    static constexpr parameter state[] = {{"mean", {C}, initializer::zeros(), "running_mean"},
                                          {"variance", {C}, initializer::ones(), "running_var"}};
    static constexpr partial partials[] = {{"mean", C}, {"squares", C}, "count"};  // squares of distances from the mean
    static constexpr work cost{.forward = 8 * elements,
                               .backward_input = 10 * elements,
                               .backward_parameters = Rows >= 64 ? 2 * C : 5 * elements,
                               .bytes = static_cast<std::int64_t>(2 * sizeof(T)) * elements};
  };

  template <class T, int C, int... Extents>
  requires(detail::is_floating(dtype_of<T>)) struct on<tensor<T, C, Extents...>>
      : of_channels<tensor<T, C, Extents...>, 1, static_cast<int>(tensor<T, C, Extents...>::size) / C> {
  };

  // A pixel is a sample whose features are the channels.
  template <class T, int C, int H, int W>
  requires(detail::is_floating(dtype_of<T>)) struct on<feature_map<T, C, H, W>>
      : of_channels<feature_map<T, C, H, W>, H * W, 1> {
  };
};

/// The same with the settings in whole numbers: momentum = `PerMille` / 1000, epsilon = `Millionths` / 1e6.
template <int PerMille = 100, int Millionths = 10>
struct batch_norm : batch_norm_with<batch_statistics{.epsilon = Millionths * 1e-6, .momentum = PerMille / 1000.0}> {};

}  // namespace gpipe
