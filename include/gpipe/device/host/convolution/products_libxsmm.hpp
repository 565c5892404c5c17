#pragma once

#include <bit>
#include <cstddef>
#include <type_traits>
#include <utility>
#include <vector>

#include <gpipe/core/config.hpp>
#include <gpipe/device/host/convolution/convolution_plan.hpp>
#include <gpipe/device/host/convolution/products_portable.hpp>
#include <gpipe/device/host/gemm/libxsmm_kernels.hpp>

namespace gpipe::host {

/// The products of a convolution's plan by libxsmm's batch-reduce kernels, compiled when the plan is made. For float
/// and double; other types, and products for which libxsmm has no kernel, are computed by the portable ones.
struct libxsmm_taps {
  template <class T>
  static constexpr int strip = std::is_same_v<T, float> ? 64 : 32;

  template <class T, bool Transposed>
  class program : public portable_taps::program<T, Transposed> {
   public:
    using portable_taps::program<T, Transposed>::program;
  };

  template <class T, bool Transposed>
  requires(std::is_same_v<T, float> || std::is_same_v<T, double>) class program<T, Transposed>
      : portable_taps::program<T, Transposed> {
    using portable = portable_taps::program<T, Transposed>;

   public:
    GPIPE_COLD program(convolution_plan source_plan, int m) : portable(std::move(source_plan), m), m_(m) {
      for (const auto& product : plan().products)
        for (int samples = 1; samples <= (Transposed ? 1 : plan().together); samples *= 2)
          kernels_.push_back(product.taps == 0 ? libxsmm_batch<T>()
                                               : libxsmm_kernels::find_batch<T>(
                                                     {product.n * samples, m, product.k, product.b_stride,
                                                      product.c_stride, Transposed, Transposed, product.a_stride}));
    }
    using portable::plan;

    void run(const convolution_plan::product& product, int samples, const convolution_plan::tap_list& taps, const T* a,
             const T* b, const T* row, T* c) const {
      const auto position = static_cast<std::size_t>(&product - plan().products.data());
      const auto power = static_cast<std::size_t>(std::countr_zero(static_cast<unsigned>(samples)));
      const auto kernel = kernels_[position * (kernels_.size() / plan().products.size()) + power];
      if (!kernel) return portable::run(product, samples, taps, a, b, row, c);
      kernel(b, a, c, static_cast<unsigned long long>(taps.count), taps.b, taps.a);
      if (row != nullptr) add(product.n * samples, product.c_stride, row, c);
    }

   private:
    // While the block is in the cache.
    void add(int rows, int stride, const T* row, T* c) const {
      for (int i = 0; i < rows; ++i, c += stride)
        for (int j = 0; j < m_; ++j) c[j] += row[j];
    }

    int m_;
    std::vector<libxsmm_batch<T>> kernels_;  // of each product, for 1, 2, 4 ... samples
  };
};

}  // namespace gpipe::host
