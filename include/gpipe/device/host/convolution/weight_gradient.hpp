#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include <gpipe/core/config.hpp>
#include <gpipe/core/tensors/dtype.hpp>
#include <gpipe/device/host/convolution/convolution_plan.hpp>
#include <gpipe/layer/contract/convolution_shape.hpp>
#include <gpipe/layer/contract/panels.hpp>

namespace gpipe::host {

// change: a convolution option
/// dw += the gradient of a convolution's weight, from packed copies. A tap's pixels are added one after the other,
/// whatever the chunks.
template <class T, class Products>
class packed_weight_gradient {
 public:
  using number = compute_type<T>;

  GPIPE_COLD explicit packed_weight_gradient(const convolution_shape& s)
      : chunks_(detail::chunks_of(s, (std::min)(strip, s.group_out()), static_cast<int>(sizeof(T)))) {
    if (chunks_.chunks.empty()) return;
    const auto last_of = [](int extent, int width) { return extent % width == 0 ? width : extent % width; };
    const int panels[] = {panel, last_of(s.group_in(), panel)};
    const int strips[] = {(std::min)(strip, s.group_out()), last_of(s.group_out(), strip)};
    for (const int n : panels)
      for (const int m : strips)
        programs_.emplace_back(detail::plan_packed(s, chunks_, n, m, static_cast<int>(sizeof(T))), m);
  }
  explicit operator bool() const { return !programs_.empty(); }

  GPIPE_OUT_OF_LINE void add(const convolution_shape& s, const row_parts<T>& x, const row_parts<T>& dy,
                             number* dw) const {
    alignas(gpipe::detail::alignment) T panels[std::size_t{room_for_panels}];
    alignas(gpipe::detail::alignment) T pixels[std::size_t{packed_chunks::pixels} * strip];
    const int Cg = s.group_in(), Kg = s.group_out();
    for (int group = 0; group < s.groups; ++group)
      for (int n = 0; n < s.samples; n += chunks_.together) {
        const int samples = (std::min)(chunks_.together, s.samples - n);
        for (const auto& chunk : chunks_.chunks) {
          const int in_pixels = (std::max)(1, samples * chunk.in_rows * chunks_.in_width);
          const int room = room_for_panels / in_pixels / panel * panel;  // in channels
          for (int channel = 0; channel < Cg; channel += room) {
            const int end = (std::min)(Cg, channel + room);
            pack_panels(s, x, n, samples, chunk, group * Cg + channel, end - channel, panels);
            for (int first = 0; first < Kg; first += strip) {
              const int m = (std::min)(strip, Kg - first);
              pack_strip(s, dy, n, samples, chunk, group * Kg + first, m, pixels);
              number* gradient = dw + group * Kg + first;
              for (int panel_channel = channel; panel_channel < end; panel_channel += panel) {
                const T* panel_x = panels + std::ptrdiff_t{panel_channel - channel} * in_pixels;
                multiply(s, chunk, samples, panel_channel, m, panel_x, pixels, gradient);
              }
            }
          }
        }
      }
  }

 private:
  static constexpr int panel = packed_chunks::panel, strip = Products::template strip<T>;
  static constexpr int room_for_panels = packed_chunks::panels_bytes / static_cast<int>(sizeof(T));
  using program = typename Products::template program<T, true>;

  static const T* sample(const row_parts<T>& parts, int i, std::ptrdiff_t size) {
    return parts.part[i / parts.rows] + i % parts.rows * size;
  }

  // All panels of a pixel at once: memory is read in its order.
  void pack_panels(const convolution_shape& s, const row_parts<T>& x, int n, int samples,
                   const packed_chunks::chunk& chunk, int channel, int count, T* packed) const {
    const int C = s.in_channels, whole = count / panel * panel, remainder = count - whole;
    const std::ptrdiff_t panel_pixels =
        std::ptrdiff_t{samples} * chunk.in_rows * chunks_.in_width;  // pixels of a panel
    T* last = packed + panel_pixels * whole;
    for (int i = n; i < n + samples; ++i)
      for (int row = 0; row < chunk.in_rows; ++row) {
        const T* source = sample(x, i, std::ptrdiff_t{s.in_height} * s.in_width * C) + channel +
                          std::ptrdiff_t{(chunk.in_row + row) * chunks_.step_down} * s.in_width * C;
        for (int pixel = 0; pixel < chunks_.in_width; ++pixel, source += std::ptrdiff_t{chunks_.step_across} * C) {
          for (int first = 0; first < whole; first += panel)
            std::memcpy(packed + panel_pixels * first, source + first, sizeof(T) * panel);
          packed += panel;
          for (int j = 0; j < remainder; ++j) *last++ = source[whole + j];
        }
      }
  }

  void pack_strip(const convolution_shape& s, const row_parts<T>& dy, int n, int samples,
                  const packed_chunks::chunk& chunk, int channel, int m, T* packed) const {
    const int K = s.out_channels, rows = (std::min)(chunks_.rows, s.out_height() - chunk.row);
    const bool more = channel + m < K;  // to be fetched into the second-level cache
    for (int i = n; i < n + samples; ++i) {
      const T* source = sample(dy, i, std::ptrdiff_t{s.out_height()} * s.out_width() * K) + channel +
                        std::ptrdiff_t{chunk.row} * chunks_.out_width * K;
      for (int pixel = 0; pixel < rows * chunks_.out_width; ++pixel, source += K, packed += m) {
        if (more)
          for (int j = 0; j < m; j += 64 / static_cast<int>(sizeof(T))) __builtin_prefetch(source + m + j, 0, 2);
        if (m == strip) std::memcpy(packed, source, sizeof(T) * strip);
        else std::memcpy(packed, source, sizeof(T) * static_cast<std::size_t>(m));
      }
    }
  }

  void multiply(const convolution_shape& s, const packed_chunks::chunk& chunk, int samples, int channel, int m,
                const T* x, const T* dy, number* dw) const {
    const bool last_panel = s.group_in() - channel < panel, last_strip = m < strip;
    const program& run = programs_[2 * static_cast<std::size_t>(last_panel) + static_cast<std::size_t>(last_strip)];
    dw += std::ptrdiff_t{channel} * s.out_channels;
    for (int i = chunk.first; i < chunk.end; ++i) {
      const auto& product = run.plan().products[static_cast<std::size_t>(i)];
      auto taps = run.plan().taps_of(product);
      taps.count *= samples;
      number* c = dw + product.c;
      const number* next = i + 1 < chunk.end ? dw + (&product)[1].c : c + std::ptrdiff_t{panel} * s.out_channels;
      if (i + 1 < chunk.end || channel + 2 * panel <= s.group_in())  // the next block of C
        for (int r = 0; r < product.n; ++r, next += s.out_channels)
          for (int j = 0; j < m; j += 64 / static_cast<int>(sizeof(number))) __builtin_prefetch(next + j, 1, 2);
      run.run(product, 1, taps, dy + product.a, x + product.b, nullptr, c);
    }
  }

  packed_chunks chunks_;
  std::vector<program> programs_;  // for a whole panel and strip, for the last strip; the same for the last panel
};

}  // namespace gpipe::host
