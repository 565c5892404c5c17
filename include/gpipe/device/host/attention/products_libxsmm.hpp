#pragma once

#include <bit>
#include <type_traits>

#include <gpipe/core/config.hpp>
#include <gpipe/device/host/attention/key_block.hpp>
#include <gpipe/device/host/attention/products_portable.hpp>
#include <gpipe/device/host/gemm/gemm_tile.hpp>
#include <gpipe/device/host/gemm/libxsmm_kernels.hpp>

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
    explicit table(const attention_strides& of) : of_(of) {}

    /// Compiles the kernels of all pieces of a block of keys.
    GPIPE_COLD void prepare(bool causal) const {
      for (int keys = 1; keys <= key_block::largest; keys *= 2)
        for (int query = 0; query < of_.queries; query += strip)
          if (query == 0 || (causal && keys == strip))
            for (const bool add : {false, true})
              if (!add || Product != attention_product::scores) find(keys, query, add);
    }

    void operator()(int keys, int query, bool add, const float* a, const float* b, float* c) const {
      using detail::offset;
      // Within a call the kernel of a piece is looked up once.
      auto& kernels = kernels_[std::countr_zero(static_cast<unsigned>(keys))][query / key_block::strip][add];
      if (!kernels.first) kernels = find(keys, query, add);
      if (!kernels.first) return portable_products::table<float, Product>(of_)(keys, query, add, a, b, c);
      if constexpr (Product == attention_product::scores) b += query, c += query;
      else if constexpr (Product == attention_product::of_queries) a += query, c += offset(query, of_.c);
      else a += query, b += offset(query, of_.b);
      kernels.first(a, b, c, nullptr);
      if (kernels.last) kernels.last(a, b + of_.width - narrow(), c + of_.width - narrow(), nullptr);
    }

   private:
    static constexpr int strip = Product == attention_product::scores ? key_block::lanes : key_block::strip;

    // With AVX-512, libxsmm computes 64 columns at once, and would add the products of one last vector in another
    // order. That vector has a kernel of its own.
    struct pair {
      libxsmm_product first, last;
    };
    int narrow() const {
      const int last = of_.width % 64;
      return Product != attention_product::scores && of_.width > 64 && last <= 16 ? last : 0;
    }

    pair find(int keys, int query, bool add) const {
      const bool scores = Product == attention_product::scores;
      pair found{find(keys, query, add, scores ? of_.queries - query : of_.width - narrow()), {}};
      if (narrow() == 0) return found;
      found.last = find(keys, query, add, narrow());
      return found.last ? found : pair{};
    }

    libxsmm_product find(int keys, int query, bool add, int columns) const {
      const int queries = of_.queries - query;
      constexpr bool transposed = Product == attention_product::of_queries;
      const int rows = transposed ? queries : keys;
      const int k = Product == attention_product::scores ? of_.width : transposed ? keys : queries;
      return libxsmm_kernels::find({rows, columns, k, of_.a, of_.c, add, transposed, of_.b, true});
    }

    attention_strides of_;
    mutable pair kernels_[7][key_block::largest / key_block::strip][2] = {};
  };
};

}  // namespace gpipe::host
