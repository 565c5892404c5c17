#pragma once

#include <algorithm>
#include <cstddef>

#include <gpipe/core/config.hpp>
#include <gpipe/core/tensors/dtype.hpp>
#include <gpipe/cuda/kernels/reduction_kernels.hpp>
#include <gpipe/layer/contract/convolution_shape.hpp>

namespace gpipe::cuda::detail {

// Convolutions as products of matrices that are never formed (implicit GEMM): a tile's elements are looked up in the
// images when the tile is loaded into shared memory. For each group of channels:
//
//     product                      rows                    columns          summed over
//     convolution_product          pixels of y             channels of y    taps, then channels of x
//     convolution_back_product     pixels of x             channels of x    taps, then channels of y
//     convolution_weight_product   taps x channels of x    channels of y    samples, then pixels of y
//
// A block of 16 x 16 threads computes a tile of 64 x 64 results, each thread 4 x 4 of them. Every sum has one order. It
// begins with the value that it is added to. A weight's gradient has few tiles and long sums, which are computed in
// parts; these are added to the value in ascending order.

inline constexpr int convolution_tile = 64, convolution_depth = 16, convolution_threads = 256;

/// Groups of fewer channels would leave most of a tile empty; there one thread computes each result.
inline bool fills_tiles(const convolution_shape& shape) { return shape.group_in() >= 16 && shape.group_out() >= 16; }

/// A row of one of the three products, and an index into a sum, as a pixel or a tap.
struct pixel_at {
  int row, column;
  std::ptrdiff_t sample;
  __device__ pixel_at(std::ptrdiff_t i, int width, int height)
      : row(static_cast<int>(i / width % height)), column(static_cast<int>(i % width)), sample(i / width / height) {}
  /// Divisions of 64 bits take several times as many instructions.
  __device__ pixel_at(int i, int width, int height)
      : row(i / width % height), column(i % width), sample(i / width / height) {}
  /// Adds a distance.
  __device__ void advance(const pixel_at& distance, int width, int height) {
    column += distance.column, row += distance.row, sample += distance.sample;
    if (column >= width) column -= width, ++row;
    if (row >= height) row -= height, ++sample;
  }
};
struct tap_at {
  int channel, kh, kw, tap;
  __device__ tap_at(std::ptrdiff_t i, int channels, int kernel_width)
      : channel(static_cast<int>(i % channels)), tap(static_cast<int>(i / channels)) {
    kh = tap / kernel_width, kw = tap % kernel_width;
  }
};

/// The element of x that output pixel (row, column) of a sample reads through a tap; 0 outside of the image.
template <class T>
__device__ compute_type<T> read_through(const convolution_shape& shape, const T* x, const pixel_at& y,
                                        const tap_at& tap, int group) {
  const int row = y.row * shape.stride_height - shape.padding_height + tap.kh * shape.dilation_height;
  const int column = y.column * shape.stride_width - shape.padding_width + tap.kw * shape.dilation_width;
  if (row < 0 || row >= shape.in_height || column < 0 || column >= shape.in_width) return 0;
  return x[((y.sample * shape.in_height + row) * shape.in_width + column) * shape.in_channels +
           group * shape.group_in() + tap.channel];
}

template <class T>
struct convolution_product {
  using number = compute_type<T>;
  static constexpr bool rows_are_neighbours = false;  ///< in memory; otherwise elements of a row are

  convolution_shape shape;
  int height, width;  ///< of y
  const T *x, *weight;
  const number* bias;
  T* y;

  std::ptrdiff_t rows() const { return std::ptrdiff_t{shape.samples} * height * width; }
  int columns() const { return shape.group_out(); }
  int groups() const { return shape.groups; }
  std::ptrdiff_t depth() const { return std::ptrdiff_t{shape.taps()} * shape.group_in(); }

  __device__ number left(int group, std::ptrdiff_t row, std::ptrdiff_t d) const {
    return read_through(shape, x, pixel_at(row, width, height), tap_at(d, shape.group_in(), shape.kernel_width), group);
  }
  __device__ number right(int group, std::ptrdiff_t d, int column) const {
    return weight[d * shape.out_channels + group * shape.group_out() + column];
  }
  __device__ number before(int group, std::ptrdiff_t, int column) const {
    return bias == nullptr ? number(0) : bias[group * shape.group_out() + column];
  }
  __device__ void store(int group, std::ptrdiff_t row, int column, number sum) const {
    y[row * shape.out_channels + group * shape.group_out() + column] = static_cast<T>(sum);
  }
};

template <class T>
struct convolution_back_product {
  using number = compute_type<T>;
  static constexpr bool rows_are_neighbours = false;

  convolution_shape shape;
  int height, width;     ///< of y
  const T *dy, *weight;  ///< the weight is {KH, KW, K / G, C}
  T* dx;

  std::ptrdiff_t rows() const { return std::ptrdiff_t{shape.samples} * shape.in_height * shape.in_width; }
  int columns() const { return shape.group_in(); }
  int groups() const { return shape.groups; }
  std::ptrdiff_t depth() const { return std::ptrdiff_t{shape.taps()} * shape.group_out(); }

  __device__ number left(int group, std::ptrdiff_t row, std::ptrdiff_t d) const {
    const pixel_at pixel(row, shape.in_width, shape.in_height);
    const tap_at tap(d, shape.group_out(), shape.kernel_width);
    const int down = pixel.row + shape.padding_height - tap.kh * shape.dilation_height;
    const int across = pixel.column + shape.padding_width - tap.kw * shape.dilation_width;
    if (down < 0 || across < 0 || down % shape.stride_height != 0 || across % shape.stride_width != 0) return 0;
    const int t = down / shape.stride_height, u = across / shape.stride_width;
    if (t >= height || u >= width) return 0;
    return dy[((pixel.sample * height + t) * width + u) * shape.out_channels + group * shape.group_out() + tap.channel];
  }
  __device__ number right(int group, std::ptrdiff_t d, int column) const {
    return weight[d * shape.in_channels + group * shape.group_in() + column];
  }
  __device__ number before(int, std::ptrdiff_t, int) const { return 0; }
  __device__ void store(int group, std::ptrdiff_t row, int column, number sum) const {
    dx[row * shape.in_channels + group * shape.group_in() + column] = static_cast<T>(sum);
  }
};

template <class T>
struct convolution_weight_product {
  using number = compute_type<T>;
  static constexpr bool rows_are_neighbours = true;

  convolution_shape shape;
  int height, width;  ///< of y
  const T *x, *dy;
  number* dw;

  std::ptrdiff_t rows() const { return std::ptrdiff_t{shape.taps()} * shape.group_in(); }
  int columns() const { return shape.group_out(); }
  int groups() const { return shape.groups; }
  std::ptrdiff_t depth() const { return std::ptrdiff_t{shape.samples} * height * width; }

  __device__ number left(int group, std::ptrdiff_t row, std::ptrdiff_t d) const {
    return read_through(shape, x, pixel_at(d, width, height), tap_at(row, shape.group_in(), shape.kernel_width), group);
  }
  __device__ number right(int group, std::ptrdiff_t d, int column) const {
    return dy[d * shape.out_channels + group * shape.group_out() + column];
  }
  __device__ number before(int group, std::ptrdiff_t row, int column) const {
    return dw[row * shape.out_channels + group * shape.group_out() + column];
  }
  __device__ void store(int group, std::ptrdiff_t row, int column, number sum) const {
    dw[row * shape.out_channels + group * shape.group_out() + column] = sum;
  }
};

/// The pixels of a weight's gradient in chunks of 64, divided into parts for different blocks, by the shape alone.
struct gradient_parts {
  std::ptrdiff_t pixels, count;  ///< pixels per part (the last may have fewer), and parts

  /// For results in this number of tiles. A part has `size` numbers, and the scratch `most`.
  gradient_parts(std::ptrdiff_t all_pixels, std::ptrdiff_t tiles, std::ptrdiff_t size, std::size_t most) {
    constexpr std::ptrdiff_t blocks = 256, least = 4;  // enough for a GPU; chunks that are worth a part
    const std::ptrdiff_t chunks = (all_pixels + convolution_tile - 1) / convolution_tile,
                         fit = static_cast<std::ptrdiff_t>(most) / size;
    const std::ptrdiff_t parts = (std::max)((std::min)({blocks / tiles, chunks / least, fit}), std::ptrdiff_t{1});
    const std::ptrdiff_t steps = (chunks + parts - 1) / parts;
    pixels = steps * convolution_tile;
    count = steps > 0 ? (chunks + steps - 1) / steps : 0;
  }
};

/// gradient[i] += parts[0][i] + parts[1][i] + ..., in this order.
template <class Number>
struct add_gradient_parts {
  std::ptrdiff_t count, size;
  const Number* parts;
  Number* gradient;
  GPIPE_HOST_DEVICE void operator()(std::ptrdiff_t i) const {
    Number sum = gradient[i];
    for (std::ptrdiff_t part = 0; part < count; ++part) sum += parts[part * size + i];
    gradient[i] = sum;
  }
};

/// A weight's gradient in parts, {parts, taps, channels of x, channels of y}: each part has all groups.
template <class T>
struct convolution_weight_parts {
  using number = compute_type<T>;
  static constexpr bool rows_are_neighbours = true;

  convolution_weight_product<T> whole;
  gradient_parts parts;
  std::ptrdiff_t all_pixels;
  number* found;

  std::ptrdiff_t rows() const { return whole.rows(); }
  int columns() const { return whole.columns(); }
  int groups() const { return whole.groups() * static_cast<int>(parts.count); }
  std::ptrdiff_t depth() const { return parts.pixels; }

  __device__ number left(int group, std::ptrdiff_t row, std::ptrdiff_t d) const {
    const std::ptrdiff_t pixel = group / whole.shape.groups * parts.pixels + d;
    return pixel < all_pixels ? whole.left(group % whole.shape.groups, row, pixel) : number(0);
  }
  __device__ number right(int group, std::ptrdiff_t d, int column) const {
    const std::ptrdiff_t pixel = group / whole.shape.groups * parts.pixels + d;
    return pixel < all_pixels ? whole.right(group % whole.shape.groups, pixel, column) : number(0);
  }
  __device__ number before(int, std::ptrdiff_t, int) const { return 0; }
  __device__ void store(int group, std::ptrdiff_t row, int column, number sum) const {
    const convolution_shape& shape = whole.shape;
    const std::ptrdiff_t part = group / shape.groups,
                         of_part = std::ptrdiff_t{shape.taps()} * shape.group_in() * shape.out_channels;
    found[part * of_part + row * shape.out_channels + group % shape.groups * shape.group_out() + column] = sum;
  }
};

/// The tiles of all groups of a product.
struct tile_grid {
  std::ptrdiff_t rows, depth;
  int columns, groups;

  template <class Product>
  explicit tile_grid(const Product& matrices)
      : rows(matrices.rows()), depth(matrices.depth()), columns(matrices.columns()), groups(matrices.groups()) {}
  GPIPE_HOST_DEVICE std::ptrdiff_t down() const { return (rows + convolution_tile - 1) / convolution_tile; }
  GPIPE_HOST_DEVICE int across() const { return (columns + convolution_tile - 1) / convolution_tile; }
  std::ptrdiff_t count() const { return down() * across() * groups; }
};

/// Each block computes one tile after another.
template <class Product>
__global__ void __launch_bounds__(convolution_threads, 1)
    multiply_tiles(Product matrices, tile_grid grid, std::ptrdiff_t count) {
  using number = typename Product::number;
  constexpr int tile = convolution_tile, deep = convolution_depth, thread_rows = 4, lanes = tile / thread_rows;
  __shared__ number left[deep][tile + 1], right[deep][tile + 1];  // one more, so that rows begin in different banks
  const int tx = static_cast<int>(threadIdx.x), ty = static_cast<int>(threadIdx.y), thread = ty * lanes + tx;
  for (std::ptrdiff_t index = blockIdx.x; index < count; index += gridDim.x) {
    const int column = static_cast<int>(index % grid.across()) * tile;
    const std::ptrdiff_t row = index / grid.across() % grid.down() * tile;
    const int group = static_cast<int>(index / grid.across() / grid.down());
    number sums[thread_rows][thread_rows];
    for (int i = 0; i < thread_rows; ++i)
      for (int j = 0; j < thread_rows; ++j) {
        const std::ptrdiff_t r = row + ty + i * lanes;
        const int c = column + tx + j * lanes;
        sums[i][j] = r < grid.rows && c < grid.columns ? matrices.before(group, r, c) : number(0);
      }
    for (std::ptrdiff_t first = 0; first < grid.depth; first += deep) {
      __syncthreads();
      for (int part = 0; part < thread_rows; ++part) {  // neighbouring threads load neighbours
        const int i = part * convolution_threads + thread;
        const int d = Product::rows_are_neighbours ? i / tile : i % deep,
                  r = Product::rows_are_neighbours ? i % tile : i / deep;
        left[d][r] =
            row + r < grid.rows && first + d < grid.depth ? matrices.left(group, row + r, first + d) : number(0);
        const int e = i / tile, c = i % tile;
        right[e][c] = first + e < grid.depth && column + c < grid.columns ? matrices.right(group, first + e, column + c)
                                                                          : number(0);
      }
      __syncthreads();
      for (int d = 0; d < deep; ++d)
        for (int i = 0; i < thread_rows; ++i)
          for (int j = 0; j < thread_rows; ++j) sums[i][j] += left[d][ty + i * lanes] * right[d][tx + j * lanes];
    }
    for (int i = 0; i < thread_rows; ++i)
      for (int j = 0; j < thread_rows; ++j) {
        const std::ptrdiff_t r = row + ty + i * lanes;
        const int c = column + tx + j * lanes;
        if (r < grid.rows && c < grid.columns) matrices.store(group, r, c, sums[i][j]);
      }
  }
}

}  // namespace gpipe::cuda::detail
