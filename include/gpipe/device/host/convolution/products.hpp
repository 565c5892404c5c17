#pragma once

#include <bit>
#include <cstddef>
#include <type_traits>
#include <utility>
#include <vector>

#include <gpipe/core/config.hpp>
#include <gpipe/core/tensors/dtype.hpp>
#include <gpipe/device/host/convolution/convolution_plan.hpp>
#include <gpipe/device/host/gemm/product_block.hpp>

#if GPIPE_WITH_LIBXSMM
#include <gpipe/device/host/gemm/libxsmm_kernels.hpp>
#endif

namespace gpipe::host {

/// Runs the products of one convolution's plan: Transposed for backward_weight, whose C is in the type of sums. A sum
/// runs over taps, then over k, in ascending order. If it is added to C, it begins with C, so that several products
/// have the bits of one. A bias is added at the end.
///
/// `Kernels` has a compiled kernel of each product, for 1, 2, 4 ... samples, or none; then product_block computes it.
template <class T, bool Transposed, class Kernels>
class convolution_program {
 public:
  using number = compute_type<T>;
  using result = std::conditional_t<Transposed, number, T>;

  GPIPE_COLD convolution_program(convolution_plan source_plan, int m) : plan_(std::move(source_plan)), m_(m) {
    for (const auto& product : plan_.products)
      for (int samples = 1; samples <= (Transposed ? 1 : plan_.together); samples *= 2)
        kernels_.add(shape(product, samples), product.taps > 0);
  }
  const convolution_plan& plan() const { return plan_; }

  /// The product for `samples` samples, a power of two. `row` is added to each row of C, if it is not null.
  void run(const convolution_plan::product& product, int samples, const product_taps& taps, const T* a, const T* b,
           const number* row, result* c) const {
    const auto position = static_cast<std::size_t>(&product - plan_.products.data());
    const auto power = static_cast<std::size_t>(std::countr_zero(static_cast<unsigned>(samples)));
    const product_taps turned{taps.b, taps.a, taps.count};
    if (!kernels_.run(position, plan_.products.size(), power, b, a, c, turned))
      return product_block::add_up<Transposed>(shape(product, samples), b, a, c, turned, row);
    if (row != nullptr) add(product.n * samples, product.c_stride, row, c);
  }

 private:
  block_shape shape(const convolution_plan::product& product, int samples) const {
    return {product.n * samples, m_,         product.k,  product.b_stride,
            product.c_stride,    Transposed, Transposed, product.a_stride};
  }
  // While the block is in the cache.
  void add(int rows, int stride, const number* row, result* c) const {
    for (int i = 0; i < rows; ++i, c += stride)
      for (int j = 0; j < m_; ++j) c[j] = c[j] + row[j];
  }

  convolution_plan plan_;
  int m_;
  [[no_unique_address]] Kernels kernels_;
};

/// The products of a convolution in plain C++ (see product_block).
struct portable_taps {
  /// m is 32 floats, or as many bytes of another type, so that a strip of any machine is whole vectors.
  template <class T>
  static constexpr int strip = 128 / static_cast<int>(sizeof(compute_type<T>));

  struct kernels {
    static void add(const block_shape&, bool) {}
    static bool run(std::size_t, std::size_t, std::size_t, const void*, const void*, void*, const product_taps&) {
      return false;
    }
  };
  template <class T, bool Transposed>
  using program = convolution_program<T, Transposed, kernels>;
};

#if GPIPE_WITH_LIBXSMM
/// The products by libxsmm's batch-reduce kernels, compiled when the plan is made. For float and double; other types,
/// and products for which libxsmm has no kernel, are computed by the portable ones.
struct libxsmm_taps {
  template <class T>
  static constexpr int strip = std::is_same_v<T, float> ? 64 : 32;

  template <class T>
  class kernels {
   public:
    GPIPE_COLD void add(const block_shape& shape, bool has_taps) {
      found_.push_back(has_taps ? libxsmm_kernels::find_batch<T>(shape) : libxsmm_batch<T>());
    }
    bool run(std::size_t position, std::size_t products, std::size_t power, const T* a, const T* b, T* c,
             const product_taps& taps) const {
      const auto kernel = found_[position * (found_.size() / products) + power];
      if (!kernel) return false;
      kernel(a, b, c, static_cast<unsigned long long>(taps.count), taps.a, taps.b);
      return true;
    }

   private:
    std::vector<libxsmm_batch<T>> found_;
  };
  template <class T, bool Transposed>
  using program = convolution_program<
      T, Transposed,
      std::conditional_t<std::is_same_v<T, float> || std::is_same_v<T, double>, kernels<T>, portable_taps::kernels>>;
};
#endif

}  // namespace gpipe::host
