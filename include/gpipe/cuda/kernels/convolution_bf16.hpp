#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>

#include <gpipe/core/config.hpp>
#include <gpipe/core/tensors/dtype.hpp>
#include <gpipe/cuda/kernels/convolution_tiles.hpp>
#include <gpipe/cuda/kernels/mma.hpp>
#include <gpipe/cuda/stream/gpu.hpp>
#include <gpipe/layer/contract/convolution_shape.hpp>

namespace gpipe::cuda::detail {

// Convolutions of bf16 on tensor cores, of one group whose channels are multiples of 8. They are the products of
// convolution_tiles.hpp: a block computes a tile of 128 pixels x 64 channels, each of its four warps 32 x 64, and its
// operands are copied 64 terms at a time into one of two stages in shared memory, while the block works on the other.
//
//     terms    tap 0: channel 0 ... C-1   tap 1: channel 0 ... C-1   tap 2: ...
//     stages   |----- 64 -----|----- 64 -----|----- 64 -----|
//
// A thread copies the same eight of each 64 terms, for eight pixels. It divides once per pixel of a tile, and then
// steps through the taps by additions. The gradient of the input has the same kernel: a pixel of x reads pixels of dy
// whose distance is a multiple of the stride. The gradient of the weight has a tile of 128 terms by 64 channels of y,
// and its sums are over pixels, 64 at a time, through which a thread also steps by additions. If there are few tiles,
// the pixels are divided into parts, by the shape alone; the sums of parts are added in ascending order.
//
// Sums begin with the bias and have the order of the terms: a result's bits depend only on the pixels that it reads.
// The weight's gradient is added to its former value when it is complete: its bits depend on all samples of the call.

inline constexpr int convolution_bf16_threads = 128;
inline constexpr int convolution_pixels = 128;  ///< of a block of results
inline constexpr int convolution_terms = 128;   ///< of a block of a weight's gradient
inline constexpr int nowhere = -(1 << 30);      ///< a row outside of every image, also after a distance is added

/// Whether a convolution's shape fits these kernels; others run plain ones.
inline bool fits_tensor_cores(const convolution_shape& shape) {
  const auto fits = [](int channels) { return channels >= 16 && channels % 8 == 0; };
  // An int holds the distances between the pixels that a block reads, of one image or several small ones, and the
  // number of pixels.
  const std::int64_t x = std::int64_t{shape.in_height} * shape.in_width,
                     y = std::int64_t{shape.out_height()} * shape.out_width();
  constexpr std::int64_t most = (std::numeric_limits<int>::max)() - convolution_pixels;
  const auto fits_int = [&](std::int64_t results, std::int64_t image) {
    return (convolution_pixels / (std::max)(results, std::int64_t{1}) + 2) * image <= most &&
           results * shape.samples <= most;
  };
  return shape.groups == 1 && fits(shape.in_channels) && fits(shape.out_channels) &&
         fits_int(y, x * shape.in_channels) && fits_int(x, y * shape.out_channels);
}
/// Whether the kernels can load 16 bytes at once.
inline bool all_aligned(std::initializer_list<const void*> arrays) {
  bool aligned = true;
  for (const void* array : arrays) aligned = aligned && reinterpret_cast<std::uintptr_t>(array) % 16 == 0;
  return aligned;
}

/// Tiles in a row.
GPIPE_HOST_DEVICE inline int tiles_across(int columns) { return (columns + convolution_tile - 1) / convolution_tile; }
GPIPE_HOST_DEVICE inline int tiles_of_terms(int depth) { return (depth + convolution_terms - 1) / convolution_terms; }

/// One direction of an image: through tap k, result pixel i reads source pixel (i scale + shift) / divide + step k, or
/// none if that is not an integer, or is outside.
struct window_axis {
  int results, sources;        ///< pixels
  int scale, shift, divide;    ///< shift >= 0 if divide > 1
  int step_whole, step_parts;  ///< from a tap to the next: pixels, and parts of a pixel to subtract, < divide

  /// A pixel, or the distance to one: in pixels, and in parts of a pixel.
  struct place {
    int pixel, part;
  };
  __device__ place of_result(int i) const {
    const int position = i * scale + shift;
    return {position / divide, position % divide};
  }
  __device__ void advance(place& tap) const {
    tap.pixel += step_whole, tap.part += step_parts;
    if (tap.part >= divide) tap.part -= divide, --tap.pixel;
  }
};

/// The windows of all results of a convolution, or of its gradient of the input.
struct tensor_windows {
  window_axis down, across;
  int channels, kernel_width, depth;  ///< channels of the source, and terms of a sum
  std::ptrdiff_t count;               ///< results' pixels

  static tensor_windows forward(const convolution_shape& shape) {
    return {
        {shape.out_height(), shape.in_height, shape.stride_height, -shape.padding_height, 1, shape.dilation_height, 0},
        {shape.out_width(), shape.in_width, shape.stride_width, -shape.padding_width, 1, shape.dilation_width, 0},
        shape.in_channels,
        shape.kernel_width,
        shape.taps() * shape.in_channels,
        std::ptrdiff_t{shape.samples} * shape.out_height() * shape.out_width()};
  }
  static tensor_windows back(const convolution_shape& shape) {
    const auto axis = [](int results, int sources, int padding, int stride, int dilation) {
      return window_axis{results, sources, 1, padding, stride, -(dilation / stride), dilation % stride};
    };
    return {axis(shape.in_height, shape.out_height(), shape.padding_height, shape.stride_height, shape.dilation_height),
            axis(shape.in_width, shape.out_width(), shape.padding_width, shape.stride_width, shape.dilation_width),
            shape.out_channels,
            shape.kernel_width,
            shape.taps() * shape.out_channels,
            std::ptrdiff_t{shape.samples} * shape.in_height * shape.in_width};
  }
  GPIPE_HOST_DEVICE std::ptrdiff_t tiles(int pixels) const { return (count + pixels - 1) / pixels; }
};

/// A thread's position in a sum: a tap, and eight channels of it.
struct window_term {
  int channel, column_of_kernel = 0;
  window_axis::place row{0, 0}, column{0, 0};

  __device__ window_term(const tensor_windows& windows, int first) : channel(0) { advance(windows, first); }
  __device__ void advance(const tensor_windows& windows, int terms) {
    GPIPE_NOT_UNROLLED
    for (channel += terms; channel >= windows.channels; channel -= windows.channels) {
      if (++column_of_kernel < windows.kernel_width) {
        windows.across.advance(column);
      } else {
        column_of_kernel = 0, column = {0, 0};
        windows.down.advance(row);
      }
    }
  }
};

/// The source's pixel that a result's first tap reads, which may be outside.
struct window_pixel {
  std::ptrdiff_t first;  ///< the pixel's first element
  int row, column, part;

  __device__ window_pixel(const tensor_windows& windows, const pixel_at& result) {
    const auto down = windows.down.of_result(result.row), across = windows.across.of_result(result.column);
    row = down.pixel, column = across.pixel, part = down.part * windows.across.divide + across.part;
    first = ((result.sample * windows.down.sources + row) * windows.across.sources + column) * windows.channels;
  }
};

/// A tile's operands in shared memory: rows of 64 elements, `Left` of the left operand and 64 of the right one.
template <int Left>
struct convolution_stages {
  using tile = swizzled_rows<64>;
  static constexpr int bytes_of_row = 2 * 64, bytes_of_stage = (Left + 64) * bytes_of_row, bytes = 2 * bytes_of_stage;
  unsigned first;  ///< shared address
  __device__ tile left(int stage) const { return {first + static_cast<unsigned>(stage * bytes_of_stage)}; }
  __device__ tile right(int stage) const { return {left(stage).first + Left * bytes_of_row}; }
};

/// A thread's elements: the ones that it copies, and its sums.
struct convolution_thread {
  static constexpr int row_step = 16;  ///< a thread copies each 16th row of a tile
  int row = static_cast<int>(threadIdx.x) / 8, eight = static_cast<int>(threadIdx.x) % 8;  ///< the first, and columns
  int warp = static_cast<int>(threadIdx.x) / warp_size, lane = lane_of_warp();

  /// The address of the thread's eight columns in row `row` + 16 i of a tile: row % 8 is the same for all i.
  __device__ unsigned place(const swizzled_rows<64>& tile, int i) const {
    return tile.at(row, eight) + static_cast<unsigned>(i * row_step * 2 * 64);
  }
  /// f(row, column, sums of two neighbours) for the thread's sums. The warp's begin at this row and column of a tile.
  template <int Rows, int Columns, class F>
  __device__ void each_pair(sum_fragment (&sums)[Rows][Columns], int first_row, int first_column, F f) const {
    GPIPE_UNROLLED
    for (int i = 0; i < 2 * Rows * Columns; ++i) {
      const int m = i / (2 * Columns), n = i / 2 % Columns, half = i % 2;
      f(first_row + 16 * m + 8 * half + lane / 4, first_column + 8 * n + 2 * (lane % 4), sums[m][n].value[2 * half],
        sums[m][n].value[2 * half + 1]);
    }
  }
};

/// A thread's part of the right operands: tiles of 64 rows of `width` elements, beginning at row `first`. Elements from
/// row `end` on, and beyond the width, are 0.
struct right_rows {
  const bf16* next;
  std::ptrdiff_t step;
  int remaining;

  __device__ right_rows(const convolution_thread& thread, const bf16* rows, int first, int end, int column, int width)
      : next(rows + std::ptrdiff_t{first + thread.row} * width + column + 8 * thread.eight),
        step(std::ptrdiff_t{thread.row_step} * width),
        remaining(column + 8 * thread.eight < width ? end - first - thread.row : 0) {}
  __device__ void load(const convolution_thread& thread, const swizzled_rows<64>& target) {
    GPIPE_UNROLLED
    for (int i = 0; i < 4; ++i, next += step)
      begin_copy(thread.place(target, i), next, i * thread.row_step < remaining ? 16 : 0);
    remaining -= 4 * thread.row_step;
  }
};

/// Adds the products of 32 x 16 left elements and rows [first, first + 16) of a tile.
__device__ inline void multiply_tile(sum_fragment (&sums)[2][8], const left_fragment (&left)[2],
                                     const swizzled_rows<64>& right, int first) {
  GPIPE_UNROLLED
  for (int n = 0; n < 8; n += 2) {
    right_fragment two[2];
    right.right_transposed(two, first, 8 * n);
    GPIPE_UNROLLED
    for (int m = 0; m < 2; ++m)
      multiply_add(sums[m][n], left[m], two[0]), multiply_add(sums[m][n + 1], left[m], two[1]);
  }
}

// change: a convolution option
/// target = bias + the sums over the windows of `source` times the weight {terms, columns}, for each result pixel.
/// Neighbouring blocks read the same pixels. `Back`: the windows are of the gradient of the input.
template <bool Back>
__global__ void __launch_bounds__(convolution_bf16_threads, 3)
    convolve_bf16(tensor_windows windows, int columns, const bf16* source, const bf16* weight, const float* bias,
                  bf16* target) {
#if GPIPE_TENSOR_CORES
  constexpr int tile = convolution_tile, copies = convolution_pixels / convolution_thread::row_step;
  using stages = convolution_stages<convolution_pixels>;
  __shared__ uint4 operands[stages::bytes / sizeof(uint4)];
  const stages memory{shared_address(operands)};
  const convolution_thread thread;
  const int across = tiles_across(columns), first_row = 32 * thread.warp;
  const pixel_at step(thread.row_step, windows.across.results, windows.down.results);
  for (std::ptrdiff_t index = blockIdx.x; index < windows.tiles(convolution_pixels) * across; index += gridDim.x) {
    const std::ptrdiff_t row = index / across * convolution_pixels;
    const int column = static_cast<int>(index % across) * tile;
    // The positions of the first taps of the pixels that the thread copies, relative to the first pixel's.
    pixel_at result(static_cast<int>(row) + thread.row, windows.across.results, windows.down.results);
    const window_pixel nearest(windows, result);
    int rows[copies], columns_of[copies], distances[copies], parts[Back ? copies : 1];
    GPIPE_UNROLLED
    for (int i = 0; i < copies; ++i) {
      const window_pixel pixel(windows, result);
      rows[i] = row + thread.row + i * thread.row_step < windows.count ? pixel.row : nowhere,
      columns_of[i] = pixel.column;
      distances[i] = static_cast<int>(pixel.first - nearest.first);
      if constexpr (Back) parts[i] = pixel.part;
      result.advance(step, windows.across.results, windows.down.results);
    }
    const bf16* const first_tap = source + nearest.first;
    window_term term(windows, 8 * thread.eight);
    right_rows right(thread, weight, 0, windows.depth, column, columns);
    const auto load = [&](int stage, int first) {
      const bf16* const tap =
          first_tap +
          ((std::ptrdiff_t{term.row.pixel} * windows.across.sources + term.column.pixel) * windows.channels +
           term.channel);
      const int part = Back ? term.row.part * windows.across.divide + term.column.part : 0;
      const int down =
          first + 8 * thread.eight < windows.depth ? term.row.pixel : nowhere;  // none beyond the last term
      GPIPE_UNROLLED
      for (int i = 0; i < copies; ++i) {
        const bool inside =
            (!Back || parts[Back ? i : 0] == part) &&
            static_cast<unsigned>(rows[i] + down) < static_cast<unsigned>(windows.down.sources) &&
            static_cast<unsigned>(columns_of[i] + term.column.pixel) < static_cast<unsigned>(windows.across.sources);
        begin_copy(thread.place(memory.left(stage), i), tap + distances[i], inside ? 16 : 0);
      }
      right.load(thread, memory.right(stage));
      term.advance(windows, tile);
    };
    sum_fragment sums[2][8] = {};
    if (bias != nullptr)
      thread.each_pair(sums, first_row, column, [&](int, int c, float& first, float& second) {
        if (c < columns) first = bias[c], second = bias[c + 1];
      });
    __syncthreads();  // all threads are done with the previous tile
    load(0, 0);
    commit_copies();
    for (int first = 0, stage = 0; first < windows.depth; first += tile, stage ^= 1) {
      await_copies<0>();
      __syncthreads();  // the stage is complete, and the other one is free
      if (first + tile < windows.depth) load(stage ^ 1, first + tile);
      commit_copies();
      const auto left = memory.left(stage), factors = memory.right(stage);
      GPIPE_UNROLLED
      for (int d = 0; d < tile; d += 16) {
        if (first + d >= windows.depth) continue;
        const left_fragment fragments[2] = {left.left(first_row, d), left.left(first_row + 16, d)};
        multiply_tile(sums, fragments, factors, d);
      }
    }
    thread.each_pair(sums, first_row, column, [&](int r, int c, float first, float second) {
      if (row + r < windows.count && c < columns)
        *reinterpret_cast<unsigned*>(target + (row + r) * columns + c) = packed(first, second);
    });
  }
#else
  __trap();
#endif
}

/// The products of pixels of x, through the taps, and of dy, summed over a part's pixels in ascending order. `Parts`:
/// written to {parts, terms, columns}; otherwise added to {terms, columns}.
template <bool Parts>
__global__ void __launch_bounds__(convolution_bf16_threads, 3)
    differentiate_weight_bf16(tensor_windows windows, int columns, gradient_parts parts, const bf16* x, const bf16* dy,
                              float* result) {
#if GPIPE_TENSOR_CORES
  constexpr int tile = convolution_tile, copies = tile / convolution_thread::row_step;
  constexpr int halves = convolution_terms / tile;  // of the left operand: tiles of 64 pixels x 64 terms
  using stages = convolution_stages<convolution_terms>;
  __shared__ uint4 operands[stages::bytes / sizeof(uint4)];
  const stages memory{shared_address(operands)};
  const auto half_of = [&](int stage, int half) {
    return stages::tile{memory.left(stage).first + static_cast<unsigned>(half * tile * stages::bytes_of_row)};
  };
  const convolution_thread thread;
  const int first_row = thread.warp * 32;  // of the warp's sums
  const int across = tiles_across(columns), width = windows.across.results, height = windows.down.results;
  const std::ptrdiff_t tiles = std::ptrdiff_t{tiles_of_terms(windows.depth)} * across;
  const std::ptrdiff_t image = std::ptrdiff_t{windows.down.sources} * windows.across.sources * windows.channels;
  const pixel_at step(tile, width, height), row_step(thread.row_step, width, height);
  for (std::ptrdiff_t index = blockIdx.x; index < tiles * parts.count; index += gridDim.x) {
    const std::ptrdiff_t part = index / tiles, begin = part * parts.pixels;
    const std::ptrdiff_t end = begin + parts.pixels < windows.count ? begin + parts.pixels : windows.count;
    const int row = static_cast<int>(index % tiles / across) * convolution_terms;
    const int column = static_cast<int>(index % across) * tile;
    // The thread's terms: their distances from a pixel's window.
    int up[halves], left_of[halves], channel[halves];
    GPIPE_UNROLLED
    for (int h = 0; h < halves; ++h) {
      const int first = row + h * tile + 8 * thread.eight;
      const window_term term(windows, first);
      up[h] = first < windows.depth ? windows.down.shift + term.row.pixel : nowhere;  // none beyond the last term
      left_of[h] = windows.across.shift + term.column.pixel, channel[h] = term.channel;
    }
    // The thread's pixels.
    int row_of[copies], column_of[copies];
    const bf16* image_of[copies];
    pixel_at pixel(static_cast<int>(begin) + thread.row, width, height);
    GPIPE_UNROLLED
    for (int i = 0; i < copies; ++i) {
      row_of[i] = pixel.row, column_of[i] = pixel.column, image_of[i] = x + pixel.sample * image;
      pixel.advance(row_step, width, height);
    }
    right_rows right(thread, dy, static_cast<int>(begin), static_cast<int>(end), column, columns);
    const auto load = [&](int stage, std::ptrdiff_t first) {
      const int left = static_cast<int>(first + tile < end ? tile : end - first) - thread.row;
      GPIPE_UNROLLED
      for (int i = 0; i < copies; ++i) {
        GPIPE_UNROLLED
        for (int h = 0; h < halves; ++h) {
          const int r = row_of[i] * windows.down.scale + up[h], c = column_of[i] * windows.across.scale + left_of[h];
          const bool inside = i * thread.row_step < left &&
                              static_cast<unsigned>(r) < static_cast<unsigned>(windows.down.sources) &&
                              static_cast<unsigned>(c) < static_cast<unsigned>(windows.across.sources);
          begin_copy(thread.place(half_of(stage, h), i),
                     image_of[i] + (inside ? (r * windows.across.sources + c) * windows.channels + channel[h] : 0),
                     inside ? 16 : 0);
        }
        column_of[i] += step.column, row_of[i] += step.row, image_of[i] += step.sample * image;
        if (column_of[i] >= width) column_of[i] -= width, ++row_of[i];
        if (row_of[i] >= height) row_of[i] -= height, image_of[i] += image;
      }
      right.load(thread, memory.right(stage));
    };
    sum_fragment sums[2][8] = {};
    __syncthreads();  // all threads are done with the previous tile
    load(0, begin);
    commit_copies();
    int stage = 0;
    for (std::ptrdiff_t first = begin; first < end; first += tile, stage ^= 1) {
      await_copies<0>();
      __syncthreads();  // the stage is complete, and the other one is free
      if (first + tile < end) load(stage ^ 1, first + tile);
      commit_copies();
      const auto left = half_of(stage, first_row / tile), factors = memory.right(stage);
      GPIPE_UNROLLED
      for (int d = 0; d < tile; d += 16) {
        if (first + d >= end) continue;
        const left_fragment fragments[2] = {left.left_transposed(d, first_row % tile),
                                            left.left_transposed(d, first_row % tile + 16)};
        multiply_tile(sums, fragments, factors, d);
      }
    }
    float* const part_result = result + (Parts ? part * windows.depth * columns : 0);
    thread.each_pair(sums, row + first_row, column, [&](int r, int c, float first, float second) {
      if (r >= windows.depth || c >= columns) return;
      float* const element = part_result + std::ptrdiff_t{r} * columns + c;
      if constexpr (Parts) element[0] = first, element[1] = second;
      else element[0] += first, element[1] += second;
    });
  }
#else
  __trap();
#endif
}

/// Whether the program's code of a kernel for the current GPU has the instructions of tensor cores: not before sm_80.
template <class Kernel>
GPIPE_COLD bool has_tensor_cores(Kernel* kernel) {
  cudaFuncAttributes found{};
  check(cudaFuncGetAttributes(&found, kernel), "cudaFuncGetAttributes");
  return found.ptxVersion >= first_with_tensor_cores;
}

}  // namespace gpipe::cuda::detail
