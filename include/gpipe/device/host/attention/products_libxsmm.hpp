#pragma once

#include <bit>
#include <type_traits>

#include <gpipe/core/config.hpp>
#include <gpipe/device/host/attention/key_block.hpp>
#include <gpipe/device/host/attention/products_portable.hpp>
#include <gpipe/device/host/gemm/gemm_tile.hpp>
#include <gpipe/device/host/gemm/libxsmm_kernels.hpp>
#include <gpipe/device/host/gemm/narrow_block.hpp>
#include <gpipe/device/host/gemm/vector.hpp>

namespace gpipe::host {

/// The products of attention's blocks by libxsmm's kernels, one for each shape. For float; other types, and shapes for
/// which libxsmm has no kernel, use the portable products.
struct libxsmm_products {
  template <class T, attention_product Product>
  struct table : portable_products::table<T, Product> {
    using portable_products::table<T, Product>::table;
  };

  template <attention_product Product>
  class table<float, Product> {
   public:
    explicit table(const attention_strides& strides) : strides_(strides) {}

    /// Compiles the kernels of all pieces of a block of keys.
    GPIPE_COLD void prepare(bool causal) const {
      for (int keys = 1; keys <= key_block::largest; keys *= 2)
        for (int query = 0; query < strides_.queries; query += strip)
          if (query == 0 || (causal && keys == strip))
            for (const bool add : {false, true})
              if (!add || Product != attention_product::scores) find(keys, query, add);
    }

    void operator()(int keys, int query, bool add, const float* a, const float* b, float* c) const {
      using detail::offset;
      // Within a call the kernel of a piece is looked up once.
      auto& kernel = kernels_[std::countr_zero(static_cast<unsigned>(keys))][query / key_block::strip][add];
      if (!kernel) kernel = find(keys, query, add);
      if (!kernel) return portable_products::table<float, Product>(strides_)(keys, query, add, a, b, c);
      if constexpr (Product == attention_product::scores) b += query, c += query;
      else if constexpr (transposed) a += query, c += offset(query, strides_.c);
      else a += query, b += offset(query, strides_.b);
      kernel(a, b, c, nullptr);
      if (const int last = narrow(); last > 0)
        narrow_block::multiply<transposed>(rows(keys, query), last, depth(keys, query), a, strides_.a,
                                           b + strides_.width - last, strides_.b, c + strides_.width - last, strides_.c,
                                           add);
    }

   private:
    static constexpr int strip = Product == attention_product::scores ? key_block::lanes : key_block::strip;
    static constexpr bool transposed = Product == attention_product::of_queries;

    // With AVX-512, libxsmm computes 64 columns at once, and would add the products of one last vector in another
    // order.
    int narrow() const {
      const int last = strides_.width % 64;
      return detail::has_masks && Product != attention_product::scores && strides_.width > 64 && last <= 16 ? last : 0;
    }
    int rows(int keys, int query) const { return transposed ? strides_.queries - query : keys; }
    int depth(int keys, int query) const {
      return Product == attention_product::scores ? strides_.width : transposed ? keys : strides_.queries - query;
    }

    libxsmm_product find(int keys, int query, bool add) const {
      const int columns = Product == attention_product::scores ? strides_.queries - query : strides_.width - narrow();
      return libxsmm_kernels::find(
          {rows(keys, query), columns, depth(keys, query), strides_.a, strides_.c, add, transposed, strides_.b, true});
    }

    attention_strides strides_;
    mutable libxsmm_product kernels_[7][key_block::largest / key_block::strip][2] = {};
  };
};

}  // namespace gpipe::host
