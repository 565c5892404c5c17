#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

#include <gpipe/layer/bound.hpp>
#include <gpipe/layer/operands.hpp>

namespace gpipe {

/// Batch normalisation of each channel (Ioffe, Szegedy, 2015), in a pipeline (Huang et al., 2019): training normalises
/// a micro-batch by its own statistics, and evaluation by moving averages of those of whole mini-batches.
///
///     h = (x - mean) r,  r = 1 / sqrt(variance + epsilon),  y = weight h + bias
///     dx = weight r (dy - mean of dy - h mean of dy h)
///     average += (PerMille / 1000) (of the mini-batch - average), when a step is committed
///
/// A channel is the first extent, as in PyTorch: of tensor<T, C, H, W> a mean is over samples, H and W; of tensor<T, C>
/// each feature is a channel. Weight {C} and bias {C}, epsilon = `Millionths` in a million. State: "mean" {C} and
/// "variance" {C}. The variance is the biased one, in the moving average the unbiased one. Samples count alike, whatever
/// their weights in the loss; of a channel with one element the variance is 0, and does not move the average.
template <int PerMille = 100, int Millionths = 10>
struct batch_norm {
  static_assert(0 <= PerMille && PerMille <= 1000, "batch_norm<PerMille>: how far a step moves the averages, of 1000");
  static_assert(Millionths > 0, "batch_norm<PerMille, Millionths>: epsilon in a million, above 0");

  template <class In>
  struct on;

  template <class T, int C, int... Extents>
    requires(is_floating(dtype_of<T>))
  struct on<tensor<T, C, Extents...>> {
    using output = tensor<T, C, Extents...>;
    static constexpr auto elements = static_cast<std::int64_t>(output::size);
    static constexpr std::ptrdiff_t inner = elements / C;

    static constexpr parameter parameters[] = {{"weight", {C}, initialiser::ones()}, {"bias", {C}}};
    static constexpr parameter state[] = {{"mean", {C}}, {"variance", {C}, initialiser::ones()}};
    static constexpr partial partials[] = {{"mean", C}, {"squares", C}, "count"};  // squares of distances from the mean
    static constexpr keep keeps{.input = true};
    static constexpr work cost{.forward = 8 * elements,
                               .backward_input = 10 * elements,
                               .backward_parameters = 5 * elements,
                               .bytes = static_cast<std::int64_t>(2 * sizeof(T)) * elements};

    template <class C_, class A>
    static void forward(const C_& c, const A& a) {
      if (double* told = a.training() ? a.partials() : nullptr) {
        c.rows(C, measure{a.in(), told, a.samples()});
        c.fill(1, static_cast<double>(a.samples() * inner), told + 2 * C);
      }
      c.rows(C, normalise{a.in(), a.template parameter<0>(), a.template parameter<1>(), a.out(), a.samples(),
                          statistics_of(a, a.partials())});
    }
    template <class C_, class A>
    static void backward_input(const C_& c, const A& a) {
      if (a.in_gradient())
        c.rows(C, differentiate{a.in(), a.out_gradient(), a.template parameter<0>(), a.in_gradient(), a.samples(),
                                statistics_of(a, nullptr)});
    }
    template <class C_, class A>
    static void backward_parameters(const C_& c, const A& a) {
      c.rows(C, add_up{a.in(), a.out_gradient(), a.template gradient<0>(), a.template gradient<1>(), a.samples(),
                       statistics_of(a, nullptr)});
    }
    template <class C_, class A>
    static void absorb(const C_& c, const A& a) noexcept {
      c.each(C, merge{a.told_by_all(), a.template state<0>(), a.template state<1>()});
    }

    // What a channel is normalised by: in training what was found in the micro-batch, else the averages.
    struct statistics {
      const double* found;
      const T *average_mean, *average_variance;
      GPIPE_HOST_DEVICE T mean(std::ptrdiff_t channel) const {
        return found ? static_cast<T>(found[channel]) : average_mean[channel];
      }
      GPIPE_HOST_DEVICE T inverse(std::ptrdiff_t channel) const {
        const double variance =
            found ? found[C + channel] / found[2 * C] : static_cast<double>(average_variance[channel]);
        return static_cast<T>(1 / std::sqrt(variance + Millionths * 1e-6));
      }
    };
    template <class A>
    static statistics statistics_of(const A& a, const double* written) {
      return {!a.training() ? nullptr : written ? written : a.told(), a.template state<0>(), a.template state<1>()};
    }

    // The elements of a channel in all samples: g of their places, summed or each.
    template <class Team, class G>
    GPIPE_HOST_DEVICE static double sum(const Team& team, int samples, std::ptrdiff_t channel, G g) {
      if constexpr (inner == 1) {
        return team.sum(samples, [=](std::ptrdiff_t s) { return static_cast<double>(g(s * C + channel)); });
      } else {
        double total = 0;
        for (std::ptrdiff_t first = channel * inner, s = 0; s < samples; ++s, first += elements)
          total += team.sum(inner, [=](std::ptrdiff_t i) { return static_cast<double>(g(first + i)); });
        return total;
      }
    }
    template <class Team, class G>
    GPIPE_HOST_DEVICE static void each(const Team& team, int samples, std::ptrdiff_t channel, G g) {
      if constexpr (inner == 1) {
        team.each(samples, [=](std::ptrdiff_t s) { g(s * C + channel); });
      } else {
        for (std::ptrdiff_t first = channel * inner, s = 0; s < samples; ++s, first += elements)
          team.each(inner, [=](std::ptrdiff_t i) { g(first + i); });
      }
    }

    struct measure {
      const T* in;
      double* told;
      int samples;
      template <class Team>
      GPIPE_HOST_DEVICE void operator()(std::ptrdiff_t channel, const Team& team) const {
        const T* x = in;
        const double mean =
            sum(team, samples, channel, [x](std::ptrdiff_t i) { return x[i]; }) / static_cast<double>(samples * inner);
        const double squares = sum(team, samples, channel, [x, mean](std::ptrdiff_t i) {
          const double off = static_cast<double>(x[i]) - mean;
          return off * off;
        });
        told[channel] = mean;
        told[C + channel] = squares;
      }
    };

    struct normalise {
      const T *in, *weight, *bias;
      T* out;
      int samples;
      statistics found;
      template <class Team>
      GPIPE_HOST_DEVICE void operator()(std::ptrdiff_t channel, const Team& team) const {
        const T *x = in, mean = found.mean(channel), inverse = found.inverse(channel);
        const T w = weight[channel], b = bias[channel];
        T* y = out;
        each(team, samples, channel, [=](std::ptrdiff_t i) { y[i] = (x[i] - mean) * inverse * w + b; });
      }
    };

    struct differentiate {
      const T *in, *out_gradient, *weight;
      T* in_gradient;
      int samples;
      statistics found;
      template <class Team>
      GPIPE_HOST_DEVICE void operator()(std::ptrdiff_t channel, const Team& team) const {
        const T *x = in, *dy = out_gradient, mean = found.mean(channel), inverse = found.inverse(channel);
        const T scale = weight[channel] * inverse;
        T* dx = in_gradient;
        T along_one = 0, along_h = 0;
        if (found.found) {  // averages do not depend on x
          const auto count = static_cast<double>(samples * inner);
          along_one = static_cast<T>(sum(team, samples, channel, [dy](std::ptrdiff_t i) { return dy[i]; }) / count);
          along_h = static_cast<T>(
              sum(team, samples, channel, [=](std::ptrdiff_t i) { return dy[i] * ((x[i] - mean) * inverse); }) / count);
        }
        each(team, samples, channel, [=](std::ptrdiff_t i) {
          dx[i] = scale * (dy[i] - along_one - (x[i] - mean) * inverse * along_h);
        });
      }
    };

    struct add_up {
      const T *in, *out_gradient;
      T *weight, *bias;
      int samples;
      statistics found;
      template <class Team>
      GPIPE_HOST_DEVICE void operator()(std::ptrdiff_t channel, const Team& team) const {
        const T *x = in, *dy = out_gradient, mean = found.mean(channel), inverse = found.inverse(channel);
        const double of_weight =
            sum(team, samples, channel, [=](std::ptrdiff_t i) { return dy[i] * ((x[i] - mean) * inverse); });
        const double of_bias = sum(team, samples, channel, [dy](std::ptrdiff_t i) { return dy[i]; });
        T *w = weight + channel, *b = bias + channel;
        team.each(1, [=](std::ptrdiff_t) {
          *w += static_cast<T>(of_weight);
          *b += static_cast<T>(of_bias);
        });
      }
    };

    // Micro-batches are put together two by two, by Chan, Golub and LeVeque (1979): no difference of large squares.
    struct merge {
      told_partials told;
      T *mean, *variance;
      GPIPE_HOST_DEVICE void operator()(std::ptrdiff_t channel) const {
        double count = 0, middle = 0, squares = 0;
        for (int m = 0; m < told.micro_batches; ++m) {
          const double more = told[m][2 * C], off = told[m][channel] - middle, all = count + more;
          squares += told[m][C + channel] + off * off * (count * more / all);
          middle += off * (more / all);
          count = all;
        }
        move(mean[channel], middle);
        if (count > 1) move(variance[channel], squares / (count - 1));
      }
      GPIPE_HOST_DEVICE static void move(T& average, double found) {
        const auto old = static_cast<double>(average);
        average = static_cast<T>(old + PerMille / 1000.0 * (found - old));
      }
    };
  };
};

}  // namespace gpipe
