#pragma once

#include <cstddef>

#include <gpipe/core/config.hpp>
#include <gpipe/core/tensors/tensor.hpp>

namespace gpipe {

/// Loops of a kernel over channels: a channel is an element of a tensor's first extent, with all that lies behind it,
/// in each sample.
///
///     tensor<float, 64, 28, 28>:  inner 784, a strip is one channel            (64 strips)
///     tensor<float, 512>:         inner 1, a strip is 32 channels side by side (16 strips), each a lane
///
/// A strip is what one team works on. In its own arrays a thread has what it needs: of its lanes, which are the same in
/// every loop over lanes, or of the one channel. `first` is the strip's first channel.
template <class Tensor>
struct channel_strips {
  static constexpr int count = Tensor::extents[0];
  static constexpr auto elements = static_cast<std::ptrdiff_t>(Tensor::size), inner = elements / count;
  static constexpr int lanes = inner == 1 ? 32 : 1, strips = (count + lanes - 1) / lanes;

  /// Lanes that are channels: the last strip may have fewer.
  GPIPE_HOST_DEVICE static constexpr std::ptrdiff_t width(std::ptrdiff_t first) {
    return count - first < lanes ? count - first : lanes;
  }

  /// g(lane) for lanes below `width`, for the thread's own arrays.
  template <class Team, class G>
  GPIPE_HOST_DEVICE static void own(const Team& team, std::ptrdiff_t width, G g) {
    if constexpr (lanes > 1) team.each(width, g);
    else g(0);
  }

  /// g(place, lane) for every element of the strip's channels, `place` counted from the first of the first sample.
  template <class Team, class G>
  GPIPE_HOST_DEVICE static void each(const Team& team, int samples, std::ptrdiff_t first, G g) {
    for (std::ptrdiff_t at = first * inner, s = 0; s < samples; ++s, at += elements) {
      if constexpr (lanes == 1) team.each(inner, [=](std::ptrdiff_t i) { g(at + i, 0); });
      else if (width(first) == lanes) team.each(lanes, [=](std::ptrdiff_t lane) { g(at + lane, lane); });
      else team.each(width(first), [=](std::ptrdiff_t lane) { g(at + lane, lane); });
    }
  }

  /// into[lane] = the sum of g(place, lane) over the lane's channel, in double; 0 where there is none.
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

}  // namespace gpipe
