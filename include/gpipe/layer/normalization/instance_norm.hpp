#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

#include <gpipe/core/tensors/feature_map.hpp>
#include <gpipe/layer/contract/bound.hpp>
#include <gpipe/layer/contract/channels.hpp>
#include <gpipe/layer/contract/operands.hpp>

namespace gpipe {

/// Normalises each channel of each sample: PyTorch's InstanceNorm2d without weights and averages.
///
///     y = (x - mean) r,  r = 1 / sqrt(variance + epsilon), over the pixels of one channel of one sample
///     dx = r (dy - mean of dy - y mean of dy y)
///
/// Epsilon is `Millionths` / 1e6, the variance the biased one. Evaluation does the same as training. Backward reads the
/// output and r.
template <int Millionths = 10>
struct instance_norm {
  static_assert(Millionths > 0, "gpipe: instance_norm<Millionths>: Millionths, epsilon * 1e6, must be above 0");

  template <class In>
  struct on;

  template <detail::floating_map In>
  struct on<In> {
    using output = In;
    using T = typename In::value_type;
    using number = compute_type<T>;
    static constexpr int C = In::channels, lanes = detail::lanes_for(C), strips = (C + lanes - 1) / lanes;
    static constexpr auto pixels = static_cast<std::ptrdiff_t>(In::pixels);
    static constexpr auto elements = static_cast<std::int64_t>(In::size);
    static constexpr buffer extras[] = {{"inverse", std::size_t{C}, dtype_of<number>}};
    static constexpr keep keeps{.output = true};
    static constexpr work cost{.forward = 8 * elements,
                               .backward_input = 10 * elements,
                               .bytes = static_cast<std::int64_t>(2 * sizeof(T)) * elements};

    template <class Context, class A>
    static void forward(const Context& c, const A& a) {
      c.rows(std::ptrdiff_t{a.samples()} * strips, normalise{a.in(), a.out(), a.template extra<0>()});
    }
    template <class Context, class A>
    static void backward_input(const Context& c, const A& a) {
      if (a.in_gradient())
        c.rows(std::ptrdiff_t{a.samples()} * strips,
               differentiate{a.out(), a.out_gradient(), a.template extra<0>(), a.in_gradient()});
    }

    // A row is up to 256 channels of a sample, side by side in each pixel. Sums are in double.
    struct strip {
      std::ptrdiff_t first, channel, width;
      GPIPE_HOST_DEVICE explicit strip(std::ptrdiff_t row)
          : first(row / strips * pixels * C + row % strips * lanes),
            channel(row / strips * C + row % strips * lanes),
            width(C - row % strips * lanes < lanes ? C - row % strips * lanes : lanes) {}
    };

    struct normalise {
      const T* in;
      T* out;
      number* inverse;
      template <class Team>
      GPIPE_HOST_DEVICE void operator()(std::ptrdiff_t row, const Team& team) const {
        const strip at(row);
        const T* x = in + at.first;
        T* y = out + at.first;
        number* r = inverse + at.channel;
        double mean[std::size_t{lanes}], squares[std::size_t{lanes}];
        team.each(at.width, [&](std::ptrdiff_t k) { mean[k] = squares[k] = 0; });
        for (std::ptrdiff_t pixel = 0; pixel < pixels; ++pixel)
          team.each(at.width, [=, &mean](std::ptrdiff_t k) { mean[k] += static_cast<double>(x[pixel * C + k]); });
        team.each(at.width, [&](std::ptrdiff_t k) { mean[k] /= static_cast<double>(pixels); });
        for (std::ptrdiff_t pixel = 0; pixel < pixels; ++pixel)
          team.each(at.width, [=, &mean, &squares](std::ptrdiff_t k) {
            const double off = static_cast<double>(x[pixel * C + k]) - mean[k];
            squares[k] += off * off;
          });
        team.each(at.width, [=, &squares](std::ptrdiff_t k) {
          r[k] = static_cast<number>(1 / std::sqrt(squares[k] / static_cast<double>(pixels) + Millionths * 1e-6));
        });
        for (std::ptrdiff_t pixel = 0; pixel < pixels; ++pixel)
          team.each(at.width, [=, &mean](std::ptrdiff_t k) {
            y[pixel * C + k] = (x[pixel * C + k] - static_cast<number>(mean[k])) * r[k];
          });
      }
    };

    struct differentiate {
      const T *out, *out_gradient;
      const number* inverse;
      T* in_gradient;
      template <class Team>
      GPIPE_HOST_DEVICE void operator()(std::ptrdiff_t row, const Team& team) const {
        const strip at(row);
        const T *y = out + at.first, *dy = out_gradient + at.first;
        T* dx = in_gradient + at.first;
        const number* r = inverse + at.channel;
        double along_one[std::size_t{lanes}], along_y[std::size_t{lanes}];
        team.each(at.width, [&](std::ptrdiff_t k) { along_one[k] = along_y[k] = 0; });
        for (std::ptrdiff_t pixel = 0; pixel < pixels; ++pixel)
          team.each(at.width, [=, &along_one, &along_y](std::ptrdiff_t k) {
            const auto d = static_cast<double>(dy[pixel * C + k]);
            along_one[k] += d;
            along_y[k] += d * static_cast<double>(y[pixel * C + k]);
          });
        team.each(at.width, [&](std::ptrdiff_t k) {
          along_one[k] /= static_cast<double>(pixels), along_y[k] /= static_cast<double>(pixels);
        });
        for (std::ptrdiff_t pixel = 0; pixel < pixels; ++pixel)
          team.each(at.width, [=, &along_one, &along_y](std::ptrdiff_t k) {
            const std::ptrdiff_t i = pixel * C + k;
            dx[i] = r[k] * (dy[i] - static_cast<number>(along_one[k]) - y[i] * static_cast<number>(along_y[k]));
          });
      }
    };
  };
};

}  // namespace gpipe
