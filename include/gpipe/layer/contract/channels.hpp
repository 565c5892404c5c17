#pragma once

#include <cstddef>

#include <gpipe/core/config.hpp>
#include <gpipe/core/tensors/tensor.hpp>

// Keeps the sums of a lane in registers at -O2 too.
#ifdef __CUDACC__
#define GPIPE_UNROLL_ROWS
#else
#define GPIPE_UNROLL_ROWS _Pragma("GCC unroll 8")
#endif

namespace gpipe::detail {

/// The number of channels, neighbours in memory, that a team works on together, each a lane: up to 256, so that memory
/// is read in its order and the lanes' sums stay in the cache.
constexpr int lanes_for(int channels) { return channels > 224 ? 256 : (channels + 31) / 32 * 32; }

/// Loops of a kernel over channels. A channel is one element of a tensor's first extent, with all later extents, in
/// every sample.
///
///     tensor<float, 64, 28, 28>:  inner 784, a strip is one channel            (64 strips)
///     tensor<float, 600>:         inner 1, a strip is 256 channels side by side (3 strips), each a lane
///
/// A team works on one strip. A thread's local arrays hold the values of its lanes, which are the same in every loop
/// over lanes, or the values of the only channel. `first` is the strip's first channel.
template <class Tensor>
struct channel_strips {
  static constexpr int count = Tensor::extents[0];
  static constexpr auto elements = static_cast<std::ptrdiff_t>(Tensor::size), inner = elements / count;
  static constexpr int lanes = inner == 1 ? lanes_for(count) : 1, strips = (count + lanes - 1) / lanes;

  /// The number of lanes that are channels: the last strip may have fewer.
  GPIPE_HOST_DEVICE static constexpr std::ptrdiff_t width(std::ptrdiff_t first) {
    return count - first < lanes ? count - first : lanes;
  }

  /// Calls g(lane) for lanes below `width`, to fill the thread's local arrays.
  template <class Team, class G>
  GPIPE_HOST_DEVICE static void each_lane(const Team& team, std::ptrdiff_t width, G g) {
    if constexpr (lanes > 1) team.each(width, g);
    else g(0);
  }

  /// Calls g(i, lane) for every element i of the strip's channels, counted from the tensor's first element.
  template <class Team, class G>
  GPIPE_HOST_DEVICE static void each(const Team& team, int samples, std::ptrdiff_t first, G g) {
    for (std::ptrdiff_t at = first * inner, s = 0; s < samples; ++s, at += elements) {
      if constexpr (lanes == 1) team.each(inner, [=](std::ptrdiff_t i) { g(at + i, 0); });
      else if (width(first) == lanes) team.each(lanes, [=](std::ptrdiff_t lane) { g(at + lane, lane); });
      else team.each(width(first), [=](std::ptrdiff_t lane) { g(at + lane, lane); });
    }
  }

  /// For strips of many lanes, two sums of each in one pass: a[lane] and b[lane] are those that g(a, b, i, lane) adds
  /// to. Eight rows at a time, for which a lane's sums stay in registers; they are added one after the other.
  template <class Team, class G>
  GPIPE_HOST_DEVICE static void two_sums(const Team& team, int samples, std::ptrdiff_t first, double* a, double* b,
                                         G g) {
    constexpr std::ptrdiff_t rows = 8;
    team.each(lanes, [=](std::ptrdiff_t lane) { a[lane] = b[lane] = 0; });
    std::ptrdiff_t at = first, s = 0;
    for (; s + rows <= samples; s += rows, at += rows * elements) {
      const auto add = [=](std::ptrdiff_t lane) {
        double of_a = a[lane], of_b = b[lane];
        GPIPE_UNROLL_ROWS
        for (std::ptrdiff_t row = 0; row < rows; ++row) g(of_a, of_b, at + row * elements + lane, lane);
        a[lane] = of_a, b[lane] = of_b;
      };
      if (width(first) == lanes) team.each(lanes, add);
      else team.each(width(first), add);
    }
    for (; s < samples; ++s, at += elements)
      team.each(width(first), [=](std::ptrdiff_t lane) { g(a[lane], b[lane], at + lane, lane); });
  }

  /// into[lane] = the sum of g(i, lane) over the lane's channel, in double; 0 for lanes without a channel.
  template <class Team, class G>
  GPIPE_HOST_DEVICE static void sum(const Team& team, int samples, std::ptrdiff_t first, double* into, G g) {
    if constexpr (lanes > 1) {
      team.each(lanes, [=](std::ptrdiff_t lane) { into[lane] = 0; });
      each(team, samples, first,
           [=](std::ptrdiff_t i, std::ptrdiff_t lane) { into[lane] += static_cast<double>(g(i, lane)); });
    } else {
      *into = 0;
      for (std::ptrdiff_t at = first * inner, s = 0; s < samples; ++s, at += elements)
        *into += team.sum(inner, [=](std::ptrdiff_t i) { return static_cast<double>(g(at + i, 0)); });
    }
  }
};

}  // namespace gpipe::detail

#undef GPIPE_UNROLL_ROWS
