#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>

#include <gpipe/core/config.hpp>
#include <gpipe/core/numbers/bf16.hpp>
#include <gpipe/device/cuda/kernels/convolution_tiles.hpp>
#include <gpipe/device/cuda/kernels/mma.hpp>
#include <gpipe/device/cuda/stream/check.hpp>
#include <gpipe/layer/contract/convolution_shape.hpp>

namespace gpipe::cuda::detail {

// Convolutions of bf16 on tensor cores, of one group, with channels in eights. They are the products of
// convolution_tiles.hpp: a block makes a tile of 64 x 64 results, each of its four warps 32 x 32, and its operands come
// 64 terms at a time into one of two stages in shared memory, while the block works on the other one.
//
//     terms    tap 0: channel 0 ... C-1   tap 1: channel 0 ... C-1   tap 2: ...
//     stages   |----- 64 -----|----- 64 -----|----- 64 -----|
//
// A thread copies the same eight of each 64 terms, of four pixels. It divides once for each of its pixels of a tile,
// and then steps through the taps by additions. The gradient of the input has the same kernel: a pixel of x reads
// pixels of dy where the stride divides the distance. The gradient of the weight has a tile of terms by channels of y,
// and its sums go over pixels, through which a thread steps by additions too. For few tiles the pixels are divided
// into parts, by the shape alone; the sums of parts are added in ascending order.
//
// Sums begin with the bias and have the order of the terms: a result's bits depend on the pixels that it reads alone.
// The weight's gradient is added to its former value once it is complete: its bits depend on all samples of the call.

inline constexpr int convolution_bf16_threads = 128;

/// Whether a convolution has a shape that fits these kernels: others have plain ones.
inline bool fits_tensor_cores(const convolution_shape& s) {
  const auto fits = [](int channels) { return channels >= 16 && channels % 8 == 0; };
  return s.groups == 1 && fits(s.in_channels) && fits(s.out_channels);
}
/// Whether the kernels can load 16 bytes at once.
inline bool all_aligned(std::initializer_list<const void*> arrays) {
  bool all = true;
  for (const void* array : arrays) all = all && reinterpret_cast<std::uintptr_t>(array) % 16 == 0;
  return all;
}

/// Tiles side by side.
GPIPE_HOST_DEVICE inline int tiles_across(int columns) { return (columns + convolution_tile - 1) / convolution_tile; }

/// One direction of an image: through tap k, result pixel i reads source pixel (i scale + shift) / divide + step k, or
/// none where that is no whole number, or outside.
struct window_axis {
  int results, sources;        ///< pixels
  int scale, shift, divide;    ///< shift >= 0 if divide > 1
  int step_whole, step_parts;  ///< from a tap to the next: pixels, and parts of a pixel to subtract, < divide

  /// A pixel, or the distance to one: in pixels, and in parts of a pixel.
  struct place {
    int at, part;
  };
  __device__ place of_result(int i) const {
    const int all = i * scale + shift;
    return {all / divide, all % divide};
  }
  __device__ void advance(place& tap) const {
    tap.at += step_whole, tap.part += step_parts;
    if (tap.part >= divide) tap.part -= divide, --tap.at;
  }
};

/// The windows of all results of a convolution, or of its gradient of the input.
struct tensor_windows {
  window_axis down, across;
  int channels, kernel_width, depth;  ///< channels of the source, and terms of a sum
  std::ptrdiff_t count;               ///< results' pixels

  static tensor_windows forward(const convolution_shape& s) {
    return {{s.out_height(), s.in_height, s.stride_height, -s.padding_height, 1, s.dilation_height, 0},
            {s.out_width(), s.in_width, s.stride_width, -s.padding_width, 1, s.dilation_width, 0},
            s.in_channels,
            s.kernel_width,
            s.taps() * s.in_channels,
            std::ptrdiff_t{s.samples} * s.out_height() * s.out_width()};
  }
  static tensor_windows back(const convolution_shape& s) {
    const auto axis = [](int results, int sources, int padding, int stride, int dilation) {
      return window_axis{results, sources, 1, padding, stride, -(dilation / stride), dilation % stride};
    };
    return {axis(s.in_height, s.out_height(), s.padding_height, s.stride_height, s.dilation_height),
            axis(s.in_width, s.out_width(), s.padding_width, s.stride_width, s.dilation_width),
            s.out_channels,
            s.kernel_width,
            s.taps() * s.out_channels,
            std::ptrdiff_t{s.samples} * s.in_height * s.in_width};
  }
  GPIPE_HOST_DEVICE std::ptrdiff_t tiles() const { return (count + convolution_tile - 1) / convolution_tile; }
};

/// A thread's place in a sum: a tap, and eight channels of it.
struct window_term {
  int channel, column_of_kernel = 0;
  window_axis::place row{0, 0}, column{0, 0};

  __device__ window_term(const tensor_windows& w, int first) : channel(0) { advance(w, first); }
  __device__ void advance(const tensor_windows& w, int terms) {
    GPIPE_NOT_UNROLLED
    for (channel += terms; channel >= w.channels; channel -= w.channels) {
      if (++column_of_kernel < w.kernel_width) {
        w.across.advance(column);
      } else {
        column_of_kernel = 0, column = {0, 0};
        w.down.advance(row);
      }
    }
  }
};

/// The source's pixel that a result's first tap reads, which may be outside.
struct window_pixel {
  std::ptrdiff_t first;  ///< the pixel's first element
  int row, column, part;

  __device__ window_pixel(const tensor_windows& w, std::ptrdiff_t result) {
    const pixel_at at(result, w.across.results, w.down.results);
    const auto r = w.down.of_result(at.row), c = w.across.of_result(at.column);
    row = r.at, column = c.at, part = r.part * w.across.divide + c.part;
    first = ((at.sample * w.down.sources + row) * w.across.sources + column) * w.channels;
    if (result >= w.count) part = -1;  // none
  }
};

/// A tile's operands in shared memory: 64 rows of 64 elements each.
struct convolution_stages {
  using tile = swizzled_rows<64>;
  static constexpr int count = 2, bytes_of_tile = 2 * 64 * 64, bytes = 2 * count * bytes_of_tile;
  unsigned first;  ///< shared address
  __device__ tile left(int stage) const { return {first + static_cast<unsigned>(2 * stage * bytes_of_tile)}; }
  __device__ tile right(int stage) const { return {first + static_cast<unsigned>((2 * stage + 1) * bytes_of_tile)}; }
};

/// A thread's place: the elements that it copies, and those of its sums.
struct convolution_thread {
  static constexpr int copies = 4, apart = 16;  ///< rows of a tile that a thread copies, 16 apart
  int row = static_cast<int>(threadIdx.x) / 8, eight = static_cast<int>(threadIdx.x) % 8;  ///< the first, and columns
  int warp = static_cast<int>(threadIdx.x) / warp_size, lane = lane_of_warp();
  int first_row = warp / 2 * 32, first_column = warp % 2 * 32;  ///< of the warp's sums in the tile

  /// Begins to copy rows of `width` elements from row `first` on, into a tile. From row `end` on, and beyond the
  /// width, all is 0.
  __device__ void load(const swizzled_rows<64>& into, const bf16* from, std::ptrdiff_t first, std::ptrdiff_t end,
                       int column, int width) const {
    const int at = column + 8 * eight;
    GPIPE_UNROLLED
    for (int i = 0; i < copies; ++i) {
      const std::ptrdiff_t r = first + row + i * apart;
      const bool inside = r < end && at < width;
      begin_copy(into.at(row + i * apart, eight), inside ? from + r * width + at : from, inside ? 16 : 0);
    }
  }
  /// f(row, column, sums of two neighbours) for the thread's sums in a tile.
  template <class F>
  __device__ void each_pair(sum_fragment (&sums)[2][4], F f) const {
    GPIPE_UNROLLED
    for (int i = 0; i < 16; ++i) {
      const int m = i / 8, n = i / 2 % 4, half = i % 2;
      f(first_row + 16 * m + 8 * half + lane / 4, first_column + 8 * n + 2 * (lane % 4), sums[m][n].at[2 * half],
        sums[m][n].at[2 * half + 1]);
    }
  }
};

/// into = bias + the sums over the windows of `from` times the weight {terms, columns}, for each result pixel.
/// Neighbouring blocks read the same pixels. `Back`: the windows are those of a gradient.
template <bool Back>
__global__ void __launch_bounds__(convolution_bf16_threads, 3)
    convolve_bf16(tensor_windows w, int columns, const bf16* from, const bf16* weight, const float* bias, bf16* into) {
#if GPIPE_TENSOR_CORES
  constexpr int tile = convolution_tile;
  __shared__ uint4 operands[convolution_stages::bytes / sizeof(uint4)];
  const convolution_stages memory{shared_address(operands)};
  const convolution_thread me;
  const int across = tiles_across(columns);
  for (std::ptrdiff_t index = blockIdx.x; index < w.tiles() * across; index += gridDim.x) {
    const std::ptrdiff_t row = index / across * tile;
    const int column = static_cast<int>(index % across) * tile;
    const window_pixel pixels[convolution_thread::copies] = {
        {w, row + me.row}, {w, row + me.row + 16}, {w, row + me.row + 32}, {w, row + me.row + 48}};
    window_term term(w, 8 * me.eight);
    const auto load = [&](int stage, int first) {
      const bool counts = first + 8 * me.eight < w.depth;
      const std::ptrdiff_t distance =
          (std::ptrdiff_t{term.row.at} * w.across.sources + term.column.at) * w.channels + term.channel;
      const int part = Back ? term.row.part * w.across.divide + term.column.part : 0;
      GPIPE_UNROLLED
      for (int i = 0; i < convolution_thread::copies; ++i) {
        const window_pixel& pixel = pixels[i];
        const bool inside =
            counts && pixel.part == part &&
            static_cast<unsigned>(pixel.row + term.row.at) < static_cast<unsigned>(w.down.sources) &&
            static_cast<unsigned>(pixel.column + term.column.at) < static_cast<unsigned>(w.across.sources);
        begin_copy(memory.left(stage).at(me.row + i * me.apart, me.eight),
                   inside ? from + (pixel.first + distance) : from, inside ? 16 : 0);
      }
      me.load(memory.right(stage), weight, first, w.depth, column, columns);
      term.advance(w, tile);
    };
    sum_fragment sums[2][4] = {};
    if (bias != nullptr)
      me.each_pair(sums, [&](int, int c, float& first, float& second) {
        if (column + c < columns) first = bias[column + c], second = bias[column + c + 1];
      });
    __syncthreads();  // all threads are done with the tile before
    load(0, 0);
    commit_copies();
    for (int first = 0, stage = 0; first < w.depth; first += tile, stage ^= 1) {
      await_copies<0>();
      __syncthreads();  // the stage is there, and the other one is free
      if (first + tile < w.depth) load(stage ^ 1, first + tile);
      commit_copies();
      const auto left = memory.left(stage), right = memory.right(stage);
      GPIPE_UNROLLED
      for (int d = 0; d < tile; d += 16) {
        if (first + d >= w.depth) continue;
        right_fragment two[2], more[2];
        right.right_transposed(two, d, me.first_column), right.right_transposed(more, d, me.first_column + 16);
        GPIPE_UNROLLED
        for (int m = 0; m < 2; ++m) {
          const left_fragment rows = left.left(me.first_row + 16 * m, d);
          multiply_add(sums[m][0], rows, two[0]), multiply_add(sums[m][1], rows, two[1]);
          multiply_add(sums[m][2], rows, more[0]), multiply_add(sums[m][3], rows, more[1]);
        }
      }
    }
    me.each_pair(sums, [&](int r, int c, float first, float second) {
      if (row + r < w.count && column + c < columns)
        *reinterpret_cast<unsigned*>(into + (row + r) * columns + column + c) = packed(first, second);
    });
  }
#else
  __trap();
#endif
}

/// The pixels of a weight's gradient, 64 at a time, in parts, each for other blocks. They depend on the shape alone.
struct gradient_parts {
  std::ptrdiff_t pixels, count;  ///< of a part, the last of which may have fewer; parts

  /// `most`: numbers of all parts' sums.
  gradient_parts(const tensor_windows& w, int columns, std::size_t most) {
    constexpr std::ptrdiff_t blocks = 256, least = 4;  // enough for a GPU; tiles of pixels that are worth a part
    const std::ptrdiff_t all = w.tiles(), tiles = std::ptrdiff_t{tiles_across(w.depth)} * tiles_across(columns),
                         fit = static_cast<std::ptrdiff_t>(most) / (std::ptrdiff_t{w.depth} * columns);
    const std::ptrdiff_t parts = (std::max)((std::min)({blocks / tiles, all / least, fit}), std::ptrdiff_t{1});
    const std::ptrdiff_t steps = (all + parts - 1) / parts;
    pixels = steps * convolution_tile;
    count = steps > 0 ? (all + steps - 1) / steps : 0;
  }
};

/// The products of pixels of x, through the taps, and of dy, summed over a part's pixels, which ascend. `Parts`: into
/// {parts, terms, columns}; else they are added to {terms, columns}.
template <bool Parts>
__global__ void __launch_bounds__(convolution_bf16_threads, 3)
    differentiate_weight_bf16(tensor_windows w, int columns, gradient_parts parts, const bf16* x, const bf16* dy,
                              float* into) {
#if GPIPE_TENSOR_CORES
  constexpr int tile = convolution_tile;
  __shared__ uint4 operands[convolution_stages::bytes / sizeof(uint4)];
  const convolution_stages memory{shared_address(operands)};
  const convolution_thread me;
  const int across = tiles_across(columns), width = w.across.results, height = w.down.results;
  const std::ptrdiff_t tiles = std::ptrdiff_t{tiles_across(w.depth)} * across;
  const pixel_at step(tile, width, height);
  for (std::ptrdiff_t index = blockIdx.x; index < tiles * parts.count; index += gridDim.x) {
    const std::ptrdiff_t part = index / tiles, begin = part * parts.pixels;
    const std::ptrdiff_t end = begin + parts.pixels < w.count ? begin + parts.pixels : w.count;
    const int row = static_cast<int>(index % tiles / across) * tile, column = static_cast<int>(index % across) * tile;
    const bool counts = row + 8 * me.eight < w.depth;
    const window_term term(w, row + 8 * me.eight);
    const int up = w.down.shift + term.row.at, left_of = w.across.shift + term.column.at;
    pixel_at pixels[convolution_thread::copies] = {{begin + me.row, width, height},
                                                   {begin + me.row + 16, width, height},
                                                   {begin + me.row + 32, width, height},
                                                   {begin + me.row + 48, width, height}};
    const auto load = [&](int stage, std::ptrdiff_t first) {
      GPIPE_UNROLLED
      for (int i = 0; i < convolution_thread::copies; ++i) {
        pixel_at& pixel = pixels[i];
        const int r = pixel.row * w.down.scale + up, c = pixel.column * w.across.scale + left_of;
        const bool inside = counts && first + me.row + i * me.apart < end &&
                            static_cast<unsigned>(r) < static_cast<unsigned>(w.down.sources) &&
                            static_cast<unsigned>(c) < static_cast<unsigned>(w.across.sources);
        const std::ptrdiff_t at =
            ((pixel.sample * w.down.sources + r) * w.across.sources + c) * w.channels + term.channel;
        begin_copy(memory.left(stage).at(me.row + i * me.apart, me.eight), inside ? x + at : x, inside ? 16 : 0);
        pixel.column += step.column, pixel.row += step.row, pixel.sample += step.sample;
        if (pixel.column >= width) pixel.column -= width, ++pixel.row;
        if (pixel.row >= height) pixel.row -= height, ++pixel.sample;
      }
      me.load(memory.right(stage), dy, first, end, column, columns);
    };
    sum_fragment sums[2][4] = {};
    __syncthreads();  // all threads are done with the tile before
    load(0, begin);
    commit_copies();
    int stage = 0;
    for (std::ptrdiff_t first = begin; first < end; first += tile, stage ^= 1) {
      await_copies<0>();
      __syncthreads();  // the stage is there, and the other one is free
      if (first + tile < end) load(stage ^ 1, first + tile);
      commit_copies();
      const auto left = memory.left(stage), right = memory.right(stage);
      GPIPE_UNROLLED
      for (int d = 0; d < tile; d += 16) {
        if (first + d >= end) continue;
        right_fragment two[2], more[2];
        right.right_transposed(two, d, me.first_column), right.right_transposed(more, d, me.first_column + 16);
        GPIPE_UNROLLED
        for (int m = 0; m < 2; ++m) {
          const left_fragment rows = left.left_transposed(d, me.first_row + 16 * m);
          multiply_add(sums[m][0], rows, two[0]), multiply_add(sums[m][1], rows, two[1]);
          multiply_add(sums[m][2], rows, more[0]), multiply_add(sums[m][3], rows, more[1]);
        }
      }
    }
    float* const own = into + (Parts ? part * w.depth * columns : 0);
    me.each_pair(sums, [&](int r, int c, float first, float second) {
      if (row + r >= w.depth || column + c >= columns) return;
      float* const at = own + std::ptrdiff_t{row + r} * columns + column + c;
      if constexpr (Parts) at[0] = first, at[1] = second;
      else at[0] += first, at[1] += second;
    });
  }
#else
  __trap();
#endif
}

/// into[i] += parts[0][i] + parts[1][i] + ..., in this order.
struct add_gradient_parts {
  std::ptrdiff_t count, size;
  const float* parts;
  float* into;
  GPIPE_HOST_DEVICE void operator()(std::ptrdiff_t i) const {
    float sum = into[i];
    for (std::ptrdiff_t part = 0; part < count; ++part) sum += parts[part * size + i];
    into[i] = sum;
  }
};

/// Whether the program's code of a kernel for the current GPU has tensor cores' instructions: not before sm_80.
template <class Kernel>
GPIPE_COLD bool has_tensor_cores(Kernel* kernel) {
  cudaFuncAttributes found{};
  check(cudaFuncGetAttributes(&found, kernel), "cudaFuncGetAttributes");
  return found.ptxVersion >= first_with_tensor_cores;
}

}  // namespace gpipe::cuda::detail
