#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <optional>
#include <type_traits>

#include <gpipe/core/tensors/dtype.hpp>
#include <gpipe/cuda/kernels/convolution.hpp>
#include <gpipe/cuda/kernels/convolution_bf16.hpp>
#include <gpipe/cuda/kernels/convolution_tiles.hpp>
#include <gpipe/cuda/kernels/elements.hpp>
#include <gpipe/cuda/kernels/gemm.hpp>
#include <gpipe/cuda/kernels/launch.hpp>
#include <gpipe/cuda/kernels/reduction_kernels.hpp>
#include <gpipe/cuda/long_rows.hpp>
#include <gpipe/cuda/products.hpp>
#include <gpipe/layer/contract/convolution_shape.hpp>

namespace gpipe::cuda {

/// A context's convolutions, and the gradients of the weights of convolutions and products, which are added to the
/// former values.
class convolutions : public products {
 public:
  using products::products;

  /// The convolutions of host::basic_context (see convolution_shape). `packed` is the result of `pack_convolution`. A
  /// 1 x 1 convolution that reads each pixel once is a product by cuBLASLt, if it has one. Others of bf16 run on tensor
  /// cores if fits_tensor_cores holds and the arrays are aligned to 16 bytes, unless the program's code for this GPU is
  /// for an architecture before sm_80.
  template <class T>
  void convolve(const convolution_shape& shape, const T* x, const T* packed, const compute_type<T>* bias, T* y) const {
    constexpr bool rounds = !std::is_same_v<T, compute_type<T>>;  // cuBLASLt would round the bias, too
    const product p = by_channels<T>(shape, shape.in_channels, shape.out_channels);
    if (!(rounds && bias != nullptr) && offers(shape, p, x, packed, y)) {
      if (bias != nullptr) return plus(p, x, packed, bias, y);
      return enqueue([&] { gemm_.run(p, x, packed, y); });
    }
    if (convolved_on_tensor_cores<false>(shape, shape.out_channels, x, packed, bias, y)) return;
    const int height = shape.out_height(), width = shape.out_width();
    if (detail::fills_tiles(shape))
      multiply_tiles(detail::convolution_product<T>{shape, height, width, x, packed, bias, y});
    else
      each(std::ptrdiff_t{shape.samples} * height * width * shape.out_channels,
           detail::convolve<T>{shape, height, width, x, packed, bias, y});
  }
  template <class T>
  void convolve_backward_input(const convolution_shape& shape, const T* dy, const T* packed, T* dx) const {
    const compute_type<T>* none = nullptr;
    if (const product p = by_channels<T>(shape, shape.out_channels, shape.in_channels);
        offers(shape, p, dy, packed, dx))
      return enqueue([&] { gemm_.run(p, dy, packed, dx); });
    if (convolved_on_tensor_cores<true>(shape, shape.in_channels, dy, packed, none, dx)) return;
    const int height = shape.out_height(), width = shape.out_width();
    if (detail::fills_tiles(shape))
      multiply_tiles(detail::convolution_back_product<T>{shape, height, width, dy, packed, dx});
    else
      each(std::ptrdiff_t{shape.samples} * shape.in_height * shape.in_width * shape.in_channels,
           detail::convolve_back<T>{shape, height, width, dy, packed, dx});
  }
  template <class T>
  void pack_convolution(const convolution_shape& shape, const compute_type<T>* weight, T* packed) const {
    each(static_cast<std::ptrdiff_t>(shape.weight_size()),
         detail::packing<T>{weight, packed, shape.out_channels, shape.out_channels, shape.out_channels});
  }
  template <class T>
  void pack_convolution_backward(const convolution_shape& shape, const compute_type<T>* weight, T* packed) const {
    each(static_cast<std::ptrdiff_t>(shape.weight_size()), detail::turned_weight<T>{shape, weight, packed});
  }
  template <class T>
  void prepare_convolution(const convolution_shape& shape) const {
    if (!reads_each_pixel_once(shape)) return;
    const product p = by_channels<T>(shape, shape.in_channels, shape.out_channels);
    prepare(p, std::is_same_v<T, compute_type<T>> ? epilogue::bias : epilogue::none);
    prepare(by_channels<T>(shape, shape.out_channels, shape.in_channels), epilogue::none);
    prepare(product::of_transposed<T>(shape.in_channels, shape.out_channels, p.rows), epilogue::none);
  }

  /// C[m x n] += A[rows x m]^T * B[rows x n]; all row-major.
  template <class T>
  void multiply_transposed(int m, int n, int rows, const T* a, const T* b, compute_type<T>* c) const {
    // Part of a parameter, such as the keys of cross_attention, can begin at an address from which cuBLASLt's kernels
    // cannot load 16 bytes at a time. The gradient of a 1 x 1 convolution's weight is the same product.
    if (product::alignment_of(c) < gemm::vector_bytes)
      return convolve_backward_weight({.samples = rows,
                                       .in_channels = m,
                                       .in_height = 1,
                                       .in_width = 1,
                                       .out_channels = n,
                                       .kernel_height = 1,
                                       .kernel_width = 1},
                                      a, b, c);
    enqueue([&] {
      if constexpr (std::is_same_v<T, bf16>)
        if (long_rows::multiplies_transposed(m, rows))
          return long_rows(stream_, gemm_).multiply_transposed(m, n, rows, a, b, c);
      gemm_.run(product::of_transposed<T>(m, n, rows), a, b, c, true);
    });
  }
  /// C[m x n] += A[rows x m]^T * B[rows x n], and sums[i] += the i-th column of A: in one kernel if cuBLASLt has one.
  template <class T>
  void multiply_transposed_and_sum(int m, int n, int rows, const T* a, const T* b, compute_type<T>* c,
                                   compute_type<T>* sums) const {
    using number = compute_type<T>;
    product p = product::of_transposed<T>(m, n, rows);
    p.fused_step = epilogue::bias_gradient;
    bool fused = false;
    enqueue([&] {
      fused = gemm_.fits_scratch<number>(m) && gemm_.offers(p, a, b, c);
      if (fused) gemm_.run(p, a, b, c, true, gemm_.scratch<number>());
    });
    if (fused) return add(m, static_cast<const number*>(gemm_.scratch<number>()), sums);
    multiply_transposed(m, n, rows, a, b, c);
    columns(rows, m, detail::entries<T>{a, m}, sums);
  }
  /// A layer calls this at construction (see `prepare_multiply`).
  template <class T>
  void prepare_multiply_transposed(int m, int n, int max_rows) const {
    product p = product::of_transposed<T>(m, n, max_rows);
    prepare(p, epilogue::bias_gradient);
    p.d_alignment = product::alignment_of(sizeof(compute_type<T>) * static_cast<std::size_t>(n));  // for a part of C
    if (gemm::vector_bytes <= p.d_alignment && p.d_alignment < product::full_alignment) prepare(p, epilogue::none);
    if constexpr (std::is_same_v<T, bf16>) long_rows(stream_, gemm_).prepare_multiply_transposed(m, n, max_rows);
  }
  /// Adds the gradient of the weight of a convolution (see `convolve`).
  template <class T>
  void convolve_backward_weight(const convolution_shape& shape, const T* x, const T* dy, compute_type<T>* dw) const {
    if (const product p =
            product::of_transposed<T>(shape.in_channels, shape.out_channels, static_cast<int>(pixels_of(shape)));
        product::alignment_of(dw) >= gemm::vector_bytes && offers(shape, p, x, dy, dw))
      return enqueue([&] { gemm_.run(p, x, dy, dw, true); });
    if (weight_on_tensor_cores(shape, x, dy, dw)) return;
    const int height = shape.out_height(), width = shape.out_width();
    const detail::convolution_weight_product<T> whole{shape, height, width, x, dy, dw};
    if (detail::fills_tiles(shape)) add_weight_tiles(whole);
    else
      each(static_cast<std::ptrdiff_t>(shape.weight_size()),
           detail::convolution_weight_gradient<T>{shape, height, width, x, dy, dw});
  }

 private:
  // Whether a convolution is the product of a matrix {pixels, channels} and its weight.
  static bool reads_each_pixel_once(const convolution_shape& shape) {
    return shape.groups == 1 && shape.taps() == 1 && shape.stride_height == 1 && shape.stride_width == 1 &&
           shape.padding_height == 0 && shape.padding_width == 0 &&
           pixels_of(shape) <= (std::numeric_limits<int>::max)();
  }
  static std::int64_t pixels_of(const convolution_shape& shape) {
    return std::int64_t{shape.samples} * shape.in_height * shape.in_width;
  }
  template <class T>
  static product by_channels(const convolution_shape& shape, int k, int n) {
    return {.in = library_type<T>,
            .out = library_type<T>,
            .n = n,
            .across = k,
            .b_stride = n,
            .rows = static_cast<int>(pixels_of(shape))};
  }
  bool offers(const convolution_shape& shape, const product& p, const void* a, const void* b, const void* d) const {
    bool offered = false;
    if (reads_each_pixel_once(shape)) enqueue([&] { offered = gemm_.offers(p, a, b, d); });
    return offered;
  }
  // assumes: half precision is bf16
  // Whether convolutions of this shape, whose arrays begin at these addresses, run on tensor cores.
  template <class T>
  bool on_tensor_cores(const convolution_shape& shape, std::initializer_list<const void*> arrays) const {
    if constexpr (std::is_same_v<T, bf16>) {
      if (!detail::fits_tensor_cores(shape) || !detail::all_aligned(arrays)) return false;
      if (!convolves_on_tensor_cores_)
        enqueue([&] { convolves_on_tensor_cores_ = detail::has_tensor_cores(detail::convolve_bf16<false>); });
      return convolves_on_tensor_cores_.value_or(false);
    }
    return false;
  }
  template <class Product>
  void multiply_tiles(const Product& matrices) const {
    const detail::tile_grid grid(matrices);
    if (grid.count() > 0)
      enqueue([&] { launch_tiles(grid.count(), detail::multiply_tiles<Product>, matrices, grid, grid.count()); });
  }

  // Launches a convolution, or a gradient of the input, if it runs on tensor cores. Returns whether it does.
  template <bool Back, class T>
  bool convolved_on_tensor_cores(const convolution_shape& shape, int columns, const T* source, const T* weight,
                                 const compute_type<T>* bias, T* target) const {
    if constexpr (std::is_same_v<T, bf16>) {
      if (!on_tensor_cores<T>(shape, {source, weight, target})) return false;
      const auto windows = Back ? detail::tensor_windows::back(shape) : detail::tensor_windows::forward(shape);
      const std::ptrdiff_t count = windows.tiles(detail::convolution_pixels) * detail::tiles_across(columns);
      if (count > 0)
        enqueue([&] {
          cuda::launch(stream_, detail::blocks(count), dim3(detail::convolution_bf16_threads),
                       detail::convolve_bf16<Back>, windows, columns, source, weight, bias, target);
        });
      return true;
    }
    return false;
  }

  template <class T>
  bool weight_on_tensor_cores(const convolution_shape& shape, const T* x, const T* dy, compute_type<T>* dw) const {
    if constexpr (std::is_same_v<T, bf16>) {
      if (!on_tensor_cores<T>(shape, {x, dy})) return false;
      const auto windows = detail::tensor_windows::forward(shape);
      const std::ptrdiff_t tiles =
          std::ptrdiff_t{detail::tiles_of_terms(windows.depth)} * detail::tiles_across(shape.out_channels);
      const detail::gradient_parts parts(windows.count, tiles, static_cast<std::ptrdiff_t>(shape.weight_size()),
                                         gemm::scratch_bytes / sizeof(float));
      const bool single = parts.count == 1;
      const std::ptrdiff_t blocks = parts.count * tiles;
      float* const partials = single ? dw : gemm_.scratch<float>();
      if (blocks == 0) return true;
      enqueue([&] {
        cuda::launch(stream_, detail::blocks(blocks), dim3(detail::convolution_bf16_threads),
                     single ? detail::differentiate_weight_bf16<false> : detail::differentiate_weight_bf16<true>,
                     windows, shape.out_channels, parts, x, dy, partials);
      });
      const auto size = static_cast<std::ptrdiff_t>(shape.weight_size());
      if (!single) each(size, detail::add_gradient_parts<float>{parts.count, size, partials, dw});
      return true;
    }
    return false;
  }
  template <class T>
  void add_weight_tiles(const detail::convolution_weight_product<T>& whole) const {
    using number = compute_type<T>;
    const auto size = static_cast<std::ptrdiff_t>(whole.shape.weight_size());
    const detail::gradient_parts parts(whole.depth(), detail::tile_grid(whole).count(), size,
                                       gemm::scratch_bytes / sizeof(number));
    if (parts.count <= 1) return multiply_tiles(whole);
    auto* const partials = gemm_.scratch<number>();
    multiply_tiles(detail::convolution_weight_parts<T>{whole, parts, whole.depth(), partials});
    each(size, detail::add_gradient_parts<number>{parts.count, size, partials, whole.dw});
  }

  mutable std::optional<bool> convolves_on_tensor_cores_;  // queried at the first convolution that fits them
};

}  // namespace gpipe::cuda
