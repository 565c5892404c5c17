#pragma once

#include <cstddef>

#include <gpipe/core/config.hpp>
#include <gpipe/core/tensors/lanes.hpp>
#include <gpipe/core/tensors/tensor.hpp>

// Keeps the sums of a lane in registers at -O2 too.
#ifdef __CUDACC__
#define GPIPE_UNROLL_ROWS
#else
#define GPIPE_UNROLL_ROWS _Pragma("GCC unroll 8")
#endif

namespace gpipe::detail {

/// Calls f(first, width) for parts of `width` lanes. On a host the parts have common constant widths, so that sums of a
/// lane stay in registers. A GPU has a thread for each lane, and all lanes are one part.
///
///     100 lanes:   0 ... 63,  64 ... 95,  96 ... 99
template <class Team, class F>
GPIPE_HOST_DEVICE void in_parts(const Team&, std::ptrdiff_t width, F f) {
  if constexpr (Team::block_bytes == 1) {
    if (width == 32) f(0, constant_width<32>{});
    else if (width == 64) f(0, constant_width<64>{});
    else if (width == 128) f(0, constant_width<128>{});
    else if (width == 256) f(0, constant_width<256>{});
    else f(0, width);
  } else {
    const auto after = [&](std::ptrdiff_t first, auto part) {
      f(first, part);
      return first + part;
    };
    for (std::ptrdiff_t first = 0, rest = width; rest > 0; rest = width - first) {
      if (rest >= 128) first = after(first, constant_width<128>{});
      else if (rest >= 64) first = after(first, constant_width<64>{});
      else if (rest >= 32) first = after(first, constant_width<32>{});
      else if (rest >= 16) first = after(first, constant_width<16>{});
      else if (rest >= 8) first = after(first, constant_width<8>{});
      else if (rest >= 4) first = after(first, constant_width<4>{});
      else if (rest == 3) first = after(first, constant_width<3>{});
      else first = after(first, rest);
    }
  }
}

/// A kernel whose rows are strips of channels: f(strips, part, lanes, team) for the parts of a strip.
template <class Strips, class F>
struct strip_kernel {
  Strips strips;
  F f;
  template <class Team>
  GPIPE_HOST_DEVICE void operator()(std::ptrdiff_t strip, const Team& team) const {
    strips.in_parts(team, strip, [&](const auto& part, auto lanes) { f(strips, part, lanes, team); });
  }
};

/// Loops of a kernel over channels. A channel is one element of a tensor's first extent, with all later extents, in
/// every sample. A team works on one strip; channels of one element are side by side, up to 256 of them in a strip,
/// each a lane, so that memory is read in its order and the lanes' sums stay in the cache.
///
///     tensor<float, 64, 28, 28>:  inner 784, a strip is one channel            (64 strips)
///     tensor<float, 600>:         inner 1, a strip is 256 channels side by side (3 strips), each a lane
///
/// A thread's local arrays, of `max_lanes` elements, hold the values of its lanes, which are the same in every loop
/// over lanes, or the values of the only channel. `first` is the strip's first channel.
template <bool SideBySide>
struct channel_strips {
  static constexpr int max_lanes = SideBySide ? 256 : 1;

  int count;
  std::ptrdiff_t inner;  ///< elements of a channel in a sample

  GPIPE_HOST_DEVICE constexpr std::ptrdiff_t elements() const { return SideBySide ? count : count * inner; }
  GPIPE_HOST_DEVICE constexpr int strips() const { return (count + max_lanes - 1) / max_lanes; }
  /// The number of the strip's lanes.
  GPIPE_HOST_DEVICE constexpr std::ptrdiff_t width(std::ptrdiff_t first) const {
    return count - first < max_lanes ? count - first : max_lanes;
  }

  /// Calls f(first, lanes) for parts of the strip: the part's first channel, and the number of its lanes.
  template <class Team, class F>
  GPIPE_HOST_DEVICE void in_parts(const Team& team, std::ptrdiff_t strip, F f) const {
    const std::ptrdiff_t first = strip * max_lanes;
    if constexpr (SideBySide)
      detail::in_parts(team, width(first), [&](std::ptrdiff_t lane, auto lanes) { f(first + lane, lanes); });
    else f(first, constant_width<1>{});
  }

  template <class Context, class F>
  void each_part(const Context& c, const F& f) const {
    c.rows(strips(), strip_kernel<channel_strips, F>{*this, f});
  }

  /// Calls g(lane) for the lanes, to fill the thread's local arrays.
  template <class Team, class Width, class G>
  GPIPE_HOST_DEVICE static void each_lane(const Team& team, Width width, G g) {
    if constexpr (SideBySide) team.each(width, g);
    else g(0);
  }

  /// Calls g(i, lane) for every element i of the strip's channels, counted from the tensor's first element.
  template <class Team, class Width, class G>
  GPIPE_HOST_DEVICE void each(const Team& team, int samples, std::ptrdiff_t first, Width lanes, G g) const {
    const std::ptrdiff_t step = elements();
    if constexpr (SideBySide) {
      for (std::ptrdiff_t element = first, s = 0; s < samples; ++s, element += step)
        team.each(lanes, [=](std::ptrdiff_t lane) { g(element + lane, lane); });
    } else {
      for (std::ptrdiff_t element = first * inner, s = 0; s < samples; ++s, element += step)
        team.each(inner, [=](std::ptrdiff_t i) { g(element + i, 0); });
    }
  }

  /// For strips of many lanes: two sums per lane in one pass, a[lane] and b[lane], to which g(a, b, i, lane) adds. It
  /// takes eight rows at a time, during which a lane's sums stay in registers; rows are added one after the other.
  template <class Team, class Width, class G>
  GPIPE_HOST_DEVICE void two_sums(const Team& team, int samples, std::ptrdiff_t first, Width lanes, double* a,
                                  double* b, G g) const {
    constexpr std::ptrdiff_t rows = 8;
    const std::ptrdiff_t step = elements();
    team.each(lanes, [=](std::ptrdiff_t lane) { a[lane] = b[lane] = 0; });
    std::ptrdiff_t element = first, s = 0;
    for (; s + rows <= samples; s += rows, element += rows * step)
      team.each(lanes, [=](std::ptrdiff_t lane) {
        double sum_a = a[lane], sum_b = b[lane];
        GPIPE_UNROLL_ROWS
        for (std::ptrdiff_t row = 0; row < rows; ++row) g(sum_a, sum_b, element + row * step + lane, lane);
        a[lane] = sum_a, b[lane] = sum_b;
      });
    for (; s < samples; ++s, element += step)
      team.each(lanes, [=](std::ptrdiff_t lane) { g(a[lane], b[lane], element + lane, lane); });
  }

  /// sums[lane] = the sum of g(i, lane) over the lane's channel, in double.
  template <class Team, class Width, class G>
  GPIPE_HOST_DEVICE void sum(const Team& team, int samples, std::ptrdiff_t first, Width lanes, double* sums,
                             G g) const {
    if constexpr (SideBySide) {
      team.each(lanes, [=](std::ptrdiff_t lane) { sums[lane] = 0; });
      each(team, samples, first, lanes,
           [=](std::ptrdiff_t i, std::ptrdiff_t lane) { sums[lane] += static_cast<double>(g(i, lane)); });
    } else {
      *sums = 0;
      const std::ptrdiff_t step = elements();
      for (std::ptrdiff_t element = first * inner, s = 0; s < samples; ++s, element += step)
        *sums += team.sum(inner, [=](std::ptrdiff_t i) { return static_cast<double>(g(element + i, 0)); });
    }
  }
};

/// A strip of a feature map: up to 256 channels of a sample, side by side in each pixel. A row of a kernel is a strip.
struct pixel_strips {
  static constexpr int max_lanes = channel_strips<true>::max_lanes;

  int channels;
  std::ptrdiff_t pixels;

  struct strip {
    std::ptrdiff_t sample;
    std::ptrdiff_t first;    ///< its first channel
    std::ptrdiff_t width;    ///< channels
    std::ptrdiff_t element;  ///< its first element in the map of all samples

    GPIPE_HOST_DEVICE constexpr strip from(std::ptrdiff_t lane) const {
      return {sample, first + lane, width - lane, element + lane};
    }
  };

  constexpr std::ptrdiff_t rows(int samples) const { return std::ptrdiff_t{samples} * strips(); }
  GPIPE_HOST_DEVICE constexpr int strips() const { return (channels + max_lanes - 1) / max_lanes; }
  GPIPE_HOST_DEVICE constexpr strip operator[](std::ptrdiff_t row) const {
    const std::ptrdiff_t sample = row / strips(), first = row % strips() * max_lanes;
    return {sample, first, channels - first < max_lanes ? channels - first : max_lanes,
            sample * pixels * channels + first};
  }

  /// Calls f(part, lanes) for parts of the row's strip, each a strip, and the number of its lanes.
  template <class Team, class F>
  GPIPE_HOST_DEVICE void in_parts(const Team& team, std::ptrdiff_t row, F f) const {
    const strip whole = (*this)[row];
    detail::in_parts(team, whole.width, [&](std::ptrdiff_t first, auto lanes) { f(whole.from(first), lanes); });
  }
  template <class Context, class F>
  void each_part(const Context& c, int samples, const F& f) const {
    c.rows(rows(samples), strip_kernel<pixel_strips, F>{*this, f});
  }
};

}  // namespace gpipe::detail

#undef GPIPE_UNROLL_ROWS
